"""The patterns of topics in grants and tokens; pure."""

import re
from collections.abc import Iterable

_TOPICS = re.compile(r"[a-zA-Z0-9._*?-]+")


def topics_of(patterns: Iterable[str]) -> str:
    """As grants and tokens keep them. Raises ValueError where there is none, or what no topic's name could match."""
    told = [part for pattern in patterns for part in pattern.split()]
    wrong = [pattern for pattern in told if not _TOPICS.fullmatch(pattern)]
    if not told or wrong:
        raise ValueError(
            f"{wrong[0] if wrong else 'nothing'!r} matches no topic: names have a-z, A-Z, 0-9, '.', '_' and '-'; "
            "* stands for any characters, ? for one"
        )
    return " ".join(dict.fromkeys(told))
