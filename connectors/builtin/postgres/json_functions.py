"""Generates functions that turn rows from pgoutput's text, or whole messages of the stream, into JSON, for each table.

A loop over the columns takes longer than the JSON itself (`connectors.converters.struct_functions`). The generated code
contains only numbers of columns; names and values are passed as objects.

Most messages are inserts, or updates without an old row, and contain all values, all of them short. Text values contain
no NUL bytes, so in these messages only the lengths do, and one regular expression can split a message. It also
separates values that are valid JSON from those that must be encoded. All other messages are read row by row.

A value and the bytes behind it are an atomic group: only one end of the value fits, so nothing else need be tried.
Without this, a null behind n values would be noticed after 2**n attempts.
"""

import re
import struct
from collections.abc import Callable, Mapping, Sequence
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
    """Kinds of columns for which `message_function` avoids a call for most values."""

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


Append = Callable[[bytes | None], None]
MessageFunction = Callable[[Append, Append, Mapping[bytes, bytes], bytes, bytes, bytes | memoryview], bool | None]
"""`(append, append_key, tails, before, between, message)`: appends the JSON of a record and of its key.

message: an XLogData message with its header. The record is the head, the row, `before`, the position, `between`, the
position again, and the tail of the operation (`I` or `U`). Returns True, or None if it has appended nothing.
"""
_SHORT_VALUE: Final = b"t\\0\\0\\0."
"""The bytes before a value of fewer than 256 bytes: its kind and its length."""


class _Reading(NamedTuple):
    """pattern: matches a value, with groups; expression: computes its JSON from these groups and `write`."""

    pattern: bytes
    expression: str


_READINGS: Final = {
    Form.OTHER: _Reading(rb"([^\0]*)", "{write}({0})"),
    # Printable ASCII without quotes and backslashes needs no escaping.
    Form.TEXT: _Reading(rb"(?:([ !#-\[\]-~]*)|([^\0]*))", "b'\"%b\"' % {0} if {0} is not None else {write}({1})"),
    # From 0.001 to 9999999.9: Java also writes these without an exponent, and always with a fraction.
    Form.FLOAT64: _Reading(
        rb"(?:(-?(?:[1-9]\d{0,6}\.\d+|0\.0{0,2}[1-9]\d*))|(-?(?:[1-9]\d{0,6}|0))|([^\0]*))",
        "{0} or ({1} + b'.0' if {1} else {write}({2}))",
    ),
    Form.MOMENT: _Reading(
        rb"(?:(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d\.\d{6})\+00|([^\0]*))",
        "b'\"%bT%bZ\"' % ({0}, {1}) if {0} else {write}({2})",
    ),
}


def message_function(
    oid: int,
    columns: Sequence[WrittenColumn],
    key: Sequence[int],
    *,
    operations: bytes,
    head: bytes,
    around_key: tuple[bytes, bytes],
) -> MessageFunction:
    """Return the function for one table.

    oid: of the table; key: the places of the key's columns, in the key's order; operations: `I`, `U` or both; head: the
    bytes before the row; around_key: the bytes before and after the key.
    """
    places = [place for place, column in enumerate(columns) if column.name is not None]
    namespace: dict[str, Any] = {}
    pattern, groups, lines = [], [], []
    for place, column in enumerate(columns):
        reading = _READINGS[column.form]
        if column.name is None:
            pattern.append(rb"[^\0]*")
            continue
        pattern.append(reading.pattern)
        names = [f"v{place}_{number}" for number in range(re.compile(pattern[-1]).groups)]
        groups += names
        namespace[f"write{place}"] = column.write
        if column.write is None:
            lines.append(f"v{place} = {names[0]}")
        else:
            lines.append(f"v{place} = " + reading.expression.format(*names, write=f"write{place}"))
            lines.append(f"if v{place} is None: return None")
    start = re.escape(oid.to_bytes(4, "big") + b"N" + len(columns).to_bytes(2, "big"))
    # Header (kind, two positions, time), kind, relation, mark of a new row, count of columns, values.
    ends = [_SHORT_VALUE] * (len(pattern) - 1) + [rb"\Z"]
    values = (
        _SHORT_VALUE + b"".join(b"(?>%b%b)" % pair for pair in zip(pattern, ends, strict=True)) if pattern else ends[0]
    )
    namespace["match"] = re.compile(b"(?s)w(.{8}).{16}([%b])%b%b" % (operations, start, values)).match
    namespace["record"] = head.replace(b"%", b"%%") + row_format(columns, places) + b"%b%b%b%b%b"
    first, last = (part.replace(b"%", b"%%") for part in around_key)
    namespace["key"] = first + row_format(columns, key) + last
    key_code = f"key % ({''.join(f'v{place}, ' for place in key)})" if key else "None"
    body = [
        "found = match(message)",
        "if found is None: return None",
        f"at, kind, {', '.join(groups)} = found.groups()",
        *lines,
        "at = b'%d' % int.from_bytes(at, 'big')",
        f"append(record % ({''.join(f'v{place}, ' for place in places)}before, at, between, at, tails[kind]))",
        f"append_key({key_code})",
        "return True",
    ]
    signature = "def row(append, append_key, tails, before, between, message):"
    return define("\n    ".join((signature, *body)), namespace)  # type: ignore[no-any-return] # the def above
