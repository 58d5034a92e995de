"""The text of a value, as Kafka Connect writes it: numbers, times, lists and structs."""

import base64
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from ringfence.connectors.api import ConnectorError, DistantDate, DistantTimestamp, EndOfDay, Schema, SchemaType, Struct
from ringfence.connectors.api.schemas import single
from ringfence.connectors.sdk.values.moments import MILLIS_PER_DAY, format_date, is_moment, millis, to_datetime

NULL: Final = "null"


def is_unicode(text: str) -> bool:
    """Return whether the string can be encoded: it has no halves of surrogate pairs."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def number_text(value: float, bits: int = 64) -> str:
    """Return a floating point number in Java's form: `1.0E10`, `0.001`, `NaN`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shortest = repr(value) if bits == 64 else _shortest_single(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = format(Decimal(shortest), "f")
        return plain if "." in plain else plain + ".0"
    if len(Decimal(shortest).as_tuple().digits) == 1:
        shortest = format(value, ".1e")  # Java never uses one digit if two are nearer
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)  # finite
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def _shortest_single(value: float) -> str:
    """Return the shortest text that is parsed as the same 32-bit number."""
    for digits in range(1, 10):
        text = format(value, f".{digits}g")
        if single(float(text)) == value:
            return text
    return repr(value)


def moment_text(value: object) -> str:
    """Return a date, a time or a timestamp as Kafka Connect shows it: by its content, not by its schema."""
    if isinstance(value, EndOfDay):
        return "24:00:00.000Z"
    moment = millis(value)
    day, within = divmod(moment, MILLIS_PER_DAY)
    time_of_day = f"{to_datetime(within):%H:%M:%S}.{within % 1000:03d}Z"
    if moment < MILLIS_PER_DAY and not isinstance(value, DistantDate | DistantTimestamp):
        return time_of_day
    return format_date(day) if within == 0 else f"{format_date(day)}T{time_of_day}"


def text(value: object, schema: Schema | None = None, *, embedded: bool = False) -> str:
    """Return the text of any value of the data model. Raises `ConnectorError` for anything else.

    embedded: inside a list, a mapping or a struct, where strings are quoted.
    """
    if isinstance(value, str):
        return _quote(value) if embedded else value
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, float):
        return number_text(value, 32 if schema is not None and schema.type is SchemaType.FLOAT32 else 64)
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = base64.b64encode(value).decode("ascii")
        return f'"{encoded}"' if embedded else encoded
    if is_moment(value):
        return moment_text(value)
    return _compound(value, schema)


def _compound(value: object, schema: Schema | None) -> str:
    if isinstance(value, Struct):
        fields = zip(value.schema.fields, value.values_or_defaults(), strict=True)
        pairs = [f"{_quote(field.name)}:{text(each, field.schema, embedded=True)}" for field, each in fields]
        return "{" + ",".join(pairs) + "}"
    keys, values = (schema.keys, schema.values) if schema is not None else (None, None)
    if isinstance(value, list | tuple):
        return "[" + ",".join(text(each, values, embedded=True) for each in value) + "]"
    if isinstance(value, Mapping):
        pairs = [f"{text(key, keys, embedded=True)}:{text(each, values, embedded=True)}" for key, each in value.items()]
        return "{" + ",".join(pairs) + "}"
    raise ConnectorError(
        f"A value of type {type(value).__name__} has no text in Kafka Connect's data model; use strings, numbers, "
        "bytes, lists, mappings or structs."
    )


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
