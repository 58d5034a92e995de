"""Generates a function for each schema that turns a struct's values into a dict, as `dataclasses` generates `__init__`.

A loop over a schema's fields costs more than the dict itself. The generated code contains only positions and names of
fields, the names as literals, so that nothing in a schema can become code.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Encode = Callable[[Any], Any]


def dict_function(
    names: Sequence[str],
    *,
    present: Mapping[int, Encode],
    nested: Mapping[int, Encode],
    null: Mapping[int, Encode],
) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Return a function `values, in the order of names -> {name: encoded}`. It raises `ValueError` for a wrong number
    of values.

    By position: present encodes what is not None; nested does so with a struct's list of values (its `_values`); null
    is called for None. Other values stay unchanged.
    """
    lines = ["def encode(values):"]
    namespace: dict[str, object] = {}
    if names:
        lines.append(f"    {''.join(f'v{place}, ' for place in range(len(names)))}= values")
    for place in range(len(names)):
        to = ""
        if place in nested:
            namespace[f"n{place}"], to = nested[place], f"v{place} = n{place}(v{place}._values)"
        elif place in present:
            namespace[f"p{place}"], to = present[place], f"v{place} = p{place}(v{place})"
        if place in null:
            namespace[f"z{place}"] = null[place]
            lines.append(f"    if v{place} is None: v{place} = z{place}(None)")
            lines += [f"    else: {to}"] if to else []
        elif to:
            lines.append(f"    if v{place} is not None: {to}")
    items = ", ".join(f"{name!r}: v{place}" for place, name in enumerate(names))
    lines.append(f"    return {{{items}}}")
    exec("\n".join(lines), namespace)  # noqa: S102 - places, and literals of names
    encode: Callable[[Sequence[Any]], dict[str, Any]] = namespace["encode"]  # type: ignore[assignment] # the def above
    return encode
