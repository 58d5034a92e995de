"""The values of rows: which of them no record can hold, and what becomes of these. Pure, but for dlt's JSON."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from dlt.common.json import json as dlt_json

from ringfence.connectors.api import DataException
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value
from ringfence.connectors.sdk.values.texts import is_unicode

UNREADABLE: Final = "\0unreadable"
"""In a list of rows, the key of one that stands for a row that cannot be read: `describe_unreadable`."""
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_STRICT: Final = json.JSONEncoder(allow_nan=False, skipkeys=True, default=lambda _value: None)


class HugeInteger:
    """An integer of JSON with more digits than Python converts. No dataclass: dlt's JSON has a form for those."""

    def __init__(self, digits: str) -> None:
        self.digits = digits

    def __str__(self) -> str:
        return self.digits


class NonFinite(float):
    """NaN or an infinity that is written so, unlike a number that is too large."""


def is_finite(rows: object) -> bool:
    """Return whether no float in the rows is NaN or infinite: dlt's JSON would make null of it."""
    try:
        _STRICT.encode(rows)
    except (ValueError, RecursionError):
        return False
    return True


def are_plain(rows: object) -> bool:
    """Return whether records can hold all values as they are."""
    try:
        dlt_json.dumpb(rows)
    except (TypeError, ValueError, RecursionError):
        return False
    return is_finite(rows)


def encode_rows(rows: list[Any], *, plain: bool = False) -> bytes:
    """Return the rows as JSON, in dlt's form. NaN and infinities are written as Python does. plain: see `are_plain`."""
    if plain or is_finite(rows):
        return dlt_json.dumpb(rows)
    return json.dumps(rows, default=_in_dlts_form).encode()


def convert_row(row: object, handling: Handling) -> object:
    """Return the row with values that records can hold. Raises `DataException`, which names the column as a path."""
    try:
        return _convert(row, handling, "")
    except RecursionError:
        raise DataException("it is nested too deeply", remedy="Correct the row at its source.") from None


def describe_unreadable(row: object, key: Mapping[str, object], error: DataException) -> dict[str, object]:
    """Return what stands for the row in a list of rows, as JSON. key: the values of its primary key."""
    fields = {"reason": error.reason, "where": error.where, "row": error.row, "remedy": error.remedy}
    more = {
        "settings": [*error.settings],
        "column": _escape(error.column),
        "value": None if error.value is None else _escape(str(error.value)),
        "text": json.dumps(row, default=str, skipkeys=True),
    }
    return {**key, UNREADABLE: {**fields, **more}}


def read_unreadable(item: object) -> tuple[DataException, str] | None:
    """Return the error of a row that cannot be read, and the row as text; None for any other row."""
    fields = item.get(UNREADABLE) if isinstance(item, dict) else None
    if not isinstance(fields, dict) or "text" not in fields:
        return None
    names = ("where", "row", "column", "remedy")
    error = DataException(
        fields["reason"],
        value=fields["value"],
        settings=tuple(fields["settings"]),
        **{name: fields[name] for name in names},
    )
    return error, fields["text"]


def _convert(value: Any, handling: Handling, path: str) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return value if is_unicode(value) else _treat(value, handling, path, "text with a lone surrogate")
        case int():
            fits = _LEAST <= value <= _MOST
            return value if fits else _treat(value, handling, path, "an integer of more than 64 bits")
        case HugeInteger():
            return _treat(value, handling, path, "an integer of more than 64 bits")
        case float():
            overflows = math.isinf(value) and not isinstance(value, NonFinite)
            return _treat(value, handling, path, "a number beyond the range of a double") if overflows else value
        case dict():
            return {_key(key, path): _convert(inner, handling, _below(path, key)) for key, inner in value.items()}
        case list() | tuple():
            return [_convert(inner, handling, f"{path}[{index}]") for index, inner in enumerate(value)]
        case _:
            try:
                return json.loads(dlt_json.dumpb(value))
            except (TypeError, ValueError) as error:
                reason = f"a value of the type {type(value).__name__}, which JSON does not have"
                raise DataException(reason, column=path, remedy="Convert it in the source.") from error


def _treat(value: object, handling: Handling, path: str, reason: str) -> str | None:
    match handling:
        case Handling.NULL:
            return None
        case Handling.TEXT:
            return _escape(str(value))
        case Handling.FAIL:
            raise refuse_value(reason, value, column=path)


def _escape(text: str) -> str:
    """Return the text with lone surrogates as escapes, such as `\\ud800`."""
    return text.encode("utf-8", "backslashreplace").decode()


def _key(key: object, path: str) -> str:
    text = str(key)
    if not is_unicode(text):
        raise DataException("the name of a field has a lone surrogate", column=path, remedy="Correct it at its source.")
    return text


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _in_dlts_form(value: object) -> object:
    return json.loads(dlt_json.dumpb(value))
