"""The names of a struct's fields, which differ, from names in a file, which may not."""

from collections.abc import Sequence


def make_distinct(names: Sequence[str]) -> list[str]:
    """Return the names in order: `column3` in place of an empty third one, `name_2` of one that was there before."""
    given = set(names)
    distinct: dict[str, None] = {}
    for place, name in enumerate(names, 1):
        name = name or _free(f"column{place}", given)
        distinct[name if name not in distinct else _free(name, given | distinct.keys(), 2)] = None
    return list(distinct)


def _free(name: str, taken: set[str], number: int = 1) -> str:
    free = name if number == 1 else f"{name}_{number}"
    return free if free not in taken else _free(name, taken, number + 1)
