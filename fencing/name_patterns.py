"""Patterns of names: `*` stands for any characters, `?` for one, everything else for itself. Pure."""

import re
from functools import lru_cache

EVERYTHING = "*"


@lru_cache(maxsize=1024)
def regular_expression(pattern: str) -> str:
    """The same as a regular expression that Python, SQLite and PostgreSQL read alike."""
    parts = {"*": ".*", "?": "."}
    return r"\A" + "".join(parts.get(character, re.escape(character)) for character in pattern) + r"\Z"


def matches(pattern: str, name: str) -> bool:
    return pattern == EVERYTHING or re.search(regular_expression(pattern), name, re.DOTALL) is not None
