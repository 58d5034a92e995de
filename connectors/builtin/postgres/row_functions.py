"""Generates functions that turn rows from pgoutput's text into JSON, one function for each table.

A loop over the columns takes longer than the JSON itself (`connectors.converters.struct_functions`). The generated code
contains only numbers of columns; names and values are passed as objects.
"""

import struct
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

Write = Callable[[bytes], bytes | None]
RowFunction = Callable[[bytes, int], tuple[bytes, bytes | None, int] | None]
"""`(message, start) -> (row, key, end)`: JSON of the row whose columns begin at `start`, JSON of its key (None for a
table without one), and the row's end. None if a value is missing, or null in a required column."""
ValuesFunction = Callable[[Sequence[bytes | None]], tuple[bytes, bytes | None] | None]
"""`values -> (row, key)`: the same for the values of a row, as text; None is null."""
_LENGTH: Final = struct.Struct(">i").unpack_from


class Form(Enum):
    """Kinds of columns for which `message_functions` avoids a call for most values."""

    OTHER = "other"
    TEXT = "text"
    FLOAT64 = "float64"
    MOMENT = "moment"
    """A timestamp with time zone, in UTC."""


class WrittenColumn(NamedTuple):
    """One column of a relation.

    name: as JSON, None for a column that is not in records; write: converts a value's text to JSON, None if the text
    already is JSON; null: JSON for null, None if null is not allowed; form: of the values.
    """

    name: bytes | None
    write: Write | None = None
    null: bytes | None = None
    form: Form = Form.OTHER


def row_function(columns: Sequence[WrittenColumn], key: Sequence[int]) -> RowFunction:
    """Return the function for a table. key: the places of the key's columns, in the key's order."""
    namespace: dict[str, Any] = {"length": _LENGTH}
    lines = ["def row(message, at):"]
    for place, column in enumerate(columns):
        lines += ["    kind = message[at]", "    if kind == 116:", "        end = at + 5 + length(message, at + 1)[0]"]
        lines += [f"        {line}" for line in _value(place, column, "message[at + 5 : end]", namespace)]
        lines.append("        at = end")
        if column.name is None:
            lines += ["    elif kind == 110 or kind == 117:", "        at += 1"]
        elif column.null is not None:
            lines += ["    elif kind == 110:", f"        v{place} = null{place}", "        at += 1"]
        lines += ["    else:", "        return None"]
    lines.append(f"    return {_result(columns, key, namespace)}, at")
    return define("\n".join(lines), namespace)  # type: ignore[no-any-return] # the def above


def values_function(columns: Sequence[WrittenColumn], key: Sequence[int]) -> ValuesFunction:
    """Return the function for rows from COPY. key: as in `row_function`."""
    namespace: dict[str, Any] = {}
    lines = ["def row(values):"]
    for place, column in enumerate(columns):
        if column.name is None:
            continue
        lines += [f"    v{place} = values[{place}]", f"    if v{place} is None:"]
        lines.append("        return None" if column.null is None else f"        v{place} = null{place}")
        if column.write is not None or column.null is None:
            lines += ["    else:"]
            lines += [f"        {line}" for line in _value(place, column, f"v{place}", namespace)]
        namespace[f"null{place}"] = column.null
    lines.append(f"    return {_result(columns, key, namespace)}")
    return define("\n".join(lines), namespace)  # type: ignore[no-any-return] # the def above


def _value(place: int, column: WrittenColumn, text: str, namespace: dict[str, Any]) -> list[str]:
    """Return the lines that assign a value's JSON to its variable."""
    if column.name is None:
        return []
    namespace[f"null{place}"] = column.null
    if column.write is None:
        return [f"v{place} = {text}"]
    namespace[f"write{place}"] = column.write
    return [f"v{place} = write{place}({text})", f"if v{place} is None: return None"]


def _result(columns: Sequence[WrittenColumn], key: Sequence[int], namespace: dict[str, Any]) -> str:
    """Return the expression for row and key."""
    places = [place for place, column in enumerate(columns) if column.name is not None]
    namespace["all"] = row_format(columns, places)
    values = "".join(f"v{place}, " for place in places)
    if not key:
        return f"all % ({values}), None"
    namespace["key"] = row_format(columns, key)
    return f"all % ({values}), key % ({''.join(f'v{place}, ' for place in key)})"


def define(text: str, namespace: dict[str, Any]) -> Any:
    """Return the function `row` that the code defines. namespace: the objects that the code refers to."""
    exec(text, namespace)  # noqa: S102 - contains only numbers of columns
    return namespace["row"]


def row_format(columns: Sequence[WrittenColumn], places: Sequence[int]) -> bytes:
    """Return the format of a JSON object with these columns."""
    names = [name for place in places if (name := columns[place].name) is not None]
    return b"{" + b",".join(name.replace(b"%", b"%%") + b":%b" for name in names) + b"}"
