"""Name patterns: `*` matches any characters, `?` one, everything else itself. Pure."""

import re
from functools import lru_cache

EVERYTHING = "*"


@lru_cache(maxsize=1024)
def regular_expression(pattern: str) -> str:
    """Return the pattern as a regular expression that Python, SQLite and PostgreSQL interpret in the same way."""
    parts = {"*": ".*", "?": "."}
    return r"\A" + "".join(parts.get(character, re.escape(character)) for character in pattern) + r"\Z"


def matches(pattern: str, name: str) -> bool:
    return pattern == EVERYTHING or re.search(regular_expression(pattern), name, re.DOTALL) is not None
