"""Values with a schema: structs, and how a value is checked against its schema.

`DistantDate`, `DistantTimestamp` and `EndOfDay` are what Kafka Connect's types hold and Python's do not: dates and
timestamps outside the years 1 to 9999, and 24:00. Among them are the values that Java's drivers deliver for `infinity`.
"""

import math
import struct as packing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final, NamedTuple

from ringfence.connectors.api.errors import ConnectorError
from ringfence.connectors.api.schemas import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME, Schema, SchemaType


@dataclass(frozen=True, slots=True, order=True)
class DistantDate:
    """A value for the logical type Date. days: since 1970-01-01, negative before; 32 bits."""

    days: int


@dataclass(frozen=True, slots=True, order=True)
class DistantTimestamp:
    """A value for the logical type Timestamp. milliseconds: since 1970-01-01 in UTC, negative before; 64 bits."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class EndOfDay:
    """24:00, a value for the logical type Time: 86,400,000 ms."""


class SchemaAndValue(NamedTuple):
    """A value with its schema. As a header's value it gives the header a schema; None for no schema."""

    schema: Schema | None
    value: object


class Struct:
    """A value for each field of a struct schema. A field that is not set is null.

    >>> from ringfence.connectors.api.schemas import STRING, INT32, struct
    >>> Struct(struct({"name": STRING, "age": INT32}), {"name": "Ada", "age": 36})["age"]
    36
    """

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, object] | None = None) -> None:
        """Raises `ConnectorError` for a field that the schema does not have, or a value that does not fit its field."""
        if schema.type is not SchemaType.STRUCT:
            raise ConnectorError(f"A struct needs a struct's schema, not {schema}")
        self.schema = schema
        stored: list[object] = [None] * len(schema.fields)
        self._values = stored
        if not values:
            return
        quick = schema.quick
        for name, value in values.items():
            if name not in quick:
                raise self._unknown(name)
            place, cls, limit, inner = quick[name]
            if value.__class__ is cls and (not limit or -limit <= value < limit):  # type: ignore[operator] # an int
                stored[place] = value
            else:
                stored[place] = fit(inner, value, f"field {name}")

    @classmethod
    def of(cls, schema: Schema, values: list[object]) -> "Struct":
        """Create one from values in the order of the fields. Nothing is checked, and the list is not copied."""
        struct = cls.__new__(cls)
        struct.schema = schema
        struct._values = values
        return struct

    def __getitem__(self, name: str) -> object:
        """Return the field's value, or its default if it is null."""
        field = self.schema.field(name)
        if field is None:
            raise self._unknown(name)
        value = self._values[field.place]
        return field.schema.default if value is None else value

    def __setitem__(self, name: str, value: object) -> None:
        """Set a field. A mapping given for a struct field becomes a struct."""
        field = self.schema.field(name)
        if field is None:
            raise self._unknown(name)
        self._values[field.place] = fit(field.schema, value, f"field {name}")

    def raw_value(self, name: str) -> object:
        """Return the field's value as it was set: None is not replaced by the default."""
        field = self.schema.field(name)
        if field is None:
            raise self._unknown(name)
        return self._values[field.place]

    def _unknown(self, name: str) -> ConnectorError:
        return ConnectorError(f"{name} is not a field of {self.schema}: it has {', '.join(self.schema.names)}")

    @property
    def values(self) -> Sequence[object]:
        """Return all values as they were set, in the order of the fields."""
        return self._values

    def values_or_defaults(self) -> list[object]:
        """Return all values in the order of the fields, with defaults in place of nulls."""
        values = self._values.copy()
        for index, default in self.schema.defaulted:
            if values[index] is None:
                values[index] = default
        return values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self._values == other._values and self.schema == other.schema

    __hash__ = None  # type: ignore[assignment] # it can be changed

    def __repr__(self) -> str:
        return f"Struct({', '.join(self.schema.names)})"


_KINDS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a number"),
    (Decimal, "a decimal"),
    (str, "a string"),
    ((bytes, bytearray, memoryview), "bytes"),
    ((datetime, DistantTimestamp), "a timestamp"),
    ((date, DistantDate), "a date"),
    ((time, EndOfDay), "a time"),
    ((Struct, Mapping), "an object"),
    (SchemaAndValue, "a value with its schema"),
    ((list, tuple), "an array"),
)


def describe_kind(value: object) -> str:
    """Name the kind of a value in an error, in words of data and not of Python: "an object", "a string"."""
    names = (words for kinds, words in _KINDS if isinstance(value, kinds))
    return next(names, f"a value of the type {type(value).__name__}")


def fit(schema: Schema, value: object, what: str = "value") -> object:
    """Convert a value to the form that its schema requires. Raises `ConnectorError`, which never shows the value.

    Integers are accepted as floats, and mappings as structs; everything else must have the schema's type.
    """
    if value is None:
        if schema.optional or schema.default is not None:
            return None
        raise ConnectorError(f"The {what} is null, but {schema} is neither optional nor has a default")
    check = _LOGICAL.get(schema.name) if schema.name is not None else None
    fitted = (check or _FIT[schema.type])(schema, value, what)
    if fitted is None:
        raise ConnectorError(f"The {what} is {describe_kind(value)}, which is not a value of {schema}")
    return fitted


def _whole(bits: int) -> "_Fit":
    limit = 1 << (bits - 1)

    def check(schema: Schema, value: object, what: str) -> object:
        if value.__class__ is int or (isinstance(value, int) and not isinstance(value, bool)):
            if -limit <= value < limit:
                return value
            raise ConnectorError(f"The {what} has more than the {bits} bits of {schema}")
        return None

    return check


def _real(schema: Schema, value: object, what: str) -> object:
    return float(value) if isinstance(value, float | int) and not isinstance(value, bool) else None


def _single(schema: Schema, value: object, what: str) -> object:
    number = _real(schema, value, what)
    return single(number) if isinstance(number, float) else None


def single(number: float) -> float:
    """Round to the nearest 32-bit float; infinite beyond its range."""
    try:
        return float(packing.unpack("f", packing.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _instance(*kinds: type) -> "_Fit":
    def check(schema: Schema, value: object, what: str) -> object:
        return value if isinstance(value, kinds) else None

    return check


def _bytes(schema: Schema, value: object, what: str) -> object:
    if isinstance(value, bytes):
        return value
    return bytes(value) if isinstance(value, bytearray | memoryview) else None


def _list(schema: Schema, value: object, what: str) -> object:
    if not isinstance(value, list | tuple) or schema.values is None:
        return None
    inner = schema.values
    return [fit(inner, each, f"element of {what}") for each in value]


def _map(schema: Schema, value: object, what: str) -> object:
    if not isinstance(value, Mapping) or schema.keys is None or schema.values is None:
        return None
    keys, values = schema.keys, schema.values
    return {fit(keys, key, f"key of {what}"): fit(values, each, f"value of {what}") for key, each in value.items()}


def _struct(schema: Schema, value: object, what: str) -> object:
    if isinstance(value, Mapping):
        return Struct(schema, value)
    if isinstance(value, Struct):
        if value.schema == schema:
            return value
        raise ConnectorError(f"The {what} is a struct of another schema: {value.schema}, not {schema}")
    return None


def _day(schema: Schema, value: object, what: str) -> object:
    return value if isinstance(value, date | DistantDate) and not isinstance(value, datetime) else None


_Fit = Callable[[Schema, object, str], object]
_FIT: Final[Mapping[SchemaType, _Fit]] = {
    SchemaType.INT8: _whole(8),
    SchemaType.INT16: _whole(16),
    SchemaType.INT32: _whole(32),
    SchemaType.INT64: _whole(64),
    SchemaType.FLOAT32: _single,
    SchemaType.FLOAT64: _real,
    SchemaType.BOOLEAN: _instance(bool),
    SchemaType.STRING: _instance(str),
    SchemaType.BYTES: _bytes,
    SchemaType.ARRAY: _list,
    SchemaType.MAP: _map,
    SchemaType.STRUCT: _struct,
}
_LOGICAL: Final[Mapping[str | None, _Fit]] = {
    DECIMAL_NAME: _instance(Decimal),
    DATE_NAME: _day,
    TIME_NAME: _instance(time, EndOfDay),
    TIMESTAMP_NAME: _instance(datetime, DistantTimestamp),
}
