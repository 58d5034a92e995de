"""Name patterns: `*` matches any characters, `?` one, everything else itself. Pure.

Patterns and names come from tenants, so a comparison takes at most as many steps as both have characters, multiplied:
the leftmost place of what is between two stars is always good enough, and nothing goes back behind it.
"""

import re
from functools import lru_cache

EVERYTHING = "*"

_CHARACTERS = {"?": "."}


@lru_cache(maxsize=1024)
def regular_expression(pattern: str) -> str:
    """Return the pattern as a regular expression for PostgreSQL, whose engine does not go back either."""
    return rf"\A{'.*'.join(_pieces(pattern))}\Z"


@lru_cache(maxsize=1024)
def linear_expression(pattern: str) -> str:
    """Return the same for Python's engine (also SQLite's, in Django): atomic groups keep it from going back."""
    first, *rest = _pieces(pattern)
    if not rest:
        return rf"\A{first}\Z"
    return rf"\A{first}{''.join(f'(?>.*?{piece})' for piece in rest[:-1] if piece)}.*?{rest[-1]}\Z"


def _pieces(pattern: str) -> list[str]:
    """Return what is between the stars, as regular expressions that match a fixed number of characters."""
    return ["".join(_CHARACTERS.get(one, re.escape(one)) for one in piece) for piece in re.split(r"\*+", pattern)]


def matches(pattern: str, name: str) -> bool:
    return pattern == EVERYTHING or re.search(linear_expression(pattern), name, re.DOTALL) is not None
