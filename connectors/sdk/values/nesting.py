"""How deep a value is nested. Functions that call themselves for each level accept only values that passed here."""

from collections.abc import Mapping
from typing import Final

DEEPEST: Final = 100
"""What JSON libraries accept at least, and more than people read."""


def is_deep(value: object, deepest: int = DEEPEST) -> bool:
    """Return whether lists and mappings are nested more than `deepest` levels. Does not recurse."""
    level = [value]
    for _ in range(deepest):
        level = [
            inner
            for each in level
            if isinstance(each, Mapping | list | tuple)
            for inner in (each.values() if isinstance(each, Mapping) else each)
            if isinstance(inner, Mapping | list | tuple)
        ]
        if not level:
            return False
    return True
