"""The patterns of topics in grants and tokens; pure."""

import re
from collections.abc import Iterable

_TOPICS = re.compile(r"[a-zA-Z0-9._*?-]+")


def topics_of(patterns: Iterable[str]) -> str:
    """Normalise patterns for grants and tokens. Raises `ValueError` for no pattern, or one that no topic's name can
    match.
    """
    parts = [part for pattern in patterns for part in pattern.split()]
    wrong = [pattern for pattern in parts if not _TOPICS.fullmatch(pattern)]
    if not parts or wrong:
        raise ValueError(
            f"{wrong[0] if wrong else 'nothing'!r} matches no topic: names have a-z, A-Z, 0-9, '.', '_' and '-'; "
            "* stands for any characters, ? for one"
        )
    return " ".join(dict.fromkeys(parts))
