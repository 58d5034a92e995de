"""The names of a struct's fields, which differ, from names in a file, which may not."""

from collections import Counter
from collections.abc import Sequence


def make_distinct(names: Sequence[str]) -> list[str]:
    """Return the names in order: `column3` in place of an empty third one, `name_2` of one that was there before."""
    others = set(names)
    counts: Counter[str] = Counter()
    distinct: dict[str, None] = {}
    for place, name in enumerate(names, 1):
        base = free = name or f"column{place}"
        while free in distinct or (free in others and free != name):
            counts[base] = max(counts[base], 1) + 1
            free = f"{base}_{counts[base]}"
        distinct[free] = None
    return list(distinct)
