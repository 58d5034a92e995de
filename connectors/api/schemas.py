"""Schemas of keys, values and header values, and values with a schema. They follow Kafka Connect's data model, so
converters write the same bytes.

A record needs no schema: its values are then plain Python ones (strings, numbers, lists, mappings). A schema gives the
exact type of a value, and can have a name, a version, a description, parameters, and a default. `fit` checks a value
against its schema.

`DistantDate`, `DistantTimestamp` and `EndOfDay` are what Kafka Connect's types hold and Python's do not: dates and
timestamps outside the years 1 to 9999, and 24:00. Among them are the values that Java's drivers deliver for `infinity`.
"""

import math
import struct as packing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple

from ringfence.connectors.api.errors import ConnectorError


class SchemaType(StrEnum):
    """The type of a value. The enum's value is the name that JSON schema envelopes and settings use."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def primitive(self) -> bool:
        return self not in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)


class Field(NamedTuple):
    """A field of a struct: its index (from 0), and its schema."""

    name: str
    place: int
    schema: "Schema"


class Schema:
    """The type of a value. Immutable; equal schemas are interchangeable.

    optional: whether None is allowed; default: the value that null stands for, None for no default; `fields` for a
    struct, `keys` and `values` for a map, `values` for an array (None if they are only nulls). The functions below are
    shorter.
    """

    __slots__ = (
        "_by_name",
        "_hash",
        "default",
        "defaulted",
        "doc",
        "fields",
        "keys",
        "name",
        "names",
        "optional",
        "parameters",
        "quick",
        "type",
        "values",
        "version",
    )

    def __init__(
        self,
        type: SchemaType,
        *,
        optional: bool = False,
        default: object = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: Iterable[tuple[str, "Schema"]] = (),
        keys: "Schema | None" = None,
        values: "Schema | None" = None,
    ) -> None:
        self.type = type
        self.optional = optional
        self.default = default
        self.name = name
        self.version = version
        self.doc = doc
        self.parameters: Mapping[str, str] = dict(parameters or {})
        self.fields = tuple(Field(each, index, schema) for index, (each, schema) in enumerate(fields))
        self.keys = keys
        self.values = values
        self.names = tuple(field.name for field in self.fields)
        self._by_name = {field.name: field for field in self.fields}
        if len(self._by_name) < len(self.fields):
            raise ValueError(f"The fields of a struct must have different names: {', '.join(self.names)}")
        self.defaulted = tuple(
            (field.place, field.schema.default) for field in self.fields if field.schema.default is not None
        )
        self.quick = {field.name: (field.place, *_quick(field.schema), field.schema) for field in self.fields}
        """By field: its place, the class whose values fit as they are (None for none), and the bound of an int."""
        self._hash = hash((type, optional, name, version, doc, self.fields, keys, values))

    def field(self, name: str) -> Field | None:
        """Return the field with that name, or None."""
        return self._by_name.get(name)

    def but(self, **changes: object) -> "Schema":
        """Return a copy with some of `__init__`'s arguments changed."""
        same: dict[str, object] = {
            "type": self.type,
            "optional": self.optional,
            "default": self.default,
            "name": self.name,
            "version": self.version,
            "doc": self.doc,
            "parameters": self.parameters,
            "fields": [(field.name, field.schema) for field in self.fields],
            "keys": self.keys,
            "values": self.values,
        }
        return Schema(**(same | changes))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema) or self._hash != other._hash:
            return False
        return all(
            getattr(self, each) == getattr(other, each)
            for each in (
                "type",
                "optional",
                "name",
                "version",
                "doc",
                "parameters",
                "fields",
                "keys",
                "values",
                "default",
            )
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Schema({self.name + ':' if self.name else ''}{self.type}{', optional' if self.optional else ''})"


def _quick(schema: Schema) -> tuple[type | None, int]:
    if schema.name in LOGICAL_NAMES:
        return None, 0
    if schema.type in _BITS:
        return int, 1 << (_BITS[schema.type] - 1)
    return _CLASSES.get(schema.type), 0


_BITS: Final = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
_CLASSES: Final[Mapping[SchemaType, type]] = {
    SchemaType.FLOAT64: float,
    SchemaType.BOOLEAN: bool,
    SchemaType.STRING: str,
    SchemaType.BYTES: bytes,
}
DECIMAL_NAME: Final = "org.apache.kafka.connect.data.Decimal"
DATE_NAME: Final = "org.apache.kafka.connect.data.Date"
TIME_NAME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME: Final = "org.apache.kafka.connect.data.Timestamp"
LOGICAL_NAMES: Final = frozenset({DECIMAL_NAME, DATE_NAME, TIME_NAME, TIMESTAMP_NAME})

BOOLEAN: Final = Schema(SchemaType.BOOLEAN)
INT8: Final = Schema(SchemaType.INT8)
INT16: Final = Schema(SchemaType.INT16)
INT32: Final = Schema(SchemaType.INT32)
INT64: Final = Schema(SchemaType.INT64)
FLOAT32: Final = Schema(SchemaType.FLOAT32)
FLOAT64: Final = Schema(SchemaType.FLOAT64)
STRING: Final = Schema(SchemaType.STRING)
BYTES: Final = Schema(SchemaType.BYTES)

DATE: Final = Schema(SchemaType.INT32, name=DATE_NAME, version=1)
"""A date: `datetime.date`."""
TIME: Final = Schema(SchemaType.INT32, name=TIME_NAME, version=1)
"""A time of day, to the millisecond: `datetime.time`."""
TIMESTAMP: Final = Schema(SchemaType.INT64, name=TIMESTAMP_NAME, version=1)
"""A point in time, to the millisecond: `datetime.datetime`, in UTC if it has no time zone."""


def decimal(scale: int) -> Schema:
    """An exact number with `scale` digits after the decimal point: `decimal.Decimal`."""
    return Schema(SchemaType.BYTES, name=DECIMAL_NAME, version=1, parameters={"scale": str(scale)})


def optional(schema: Schema) -> Schema:
    """Return a copy that allows None."""
    return schema.but(optional=True)


def struct(
    fields: Mapping[str, Schema],
    name: str | None = None,
    *,
    version: int | None = None,
    optional: bool = False,
    doc: str | None = None,
) -> Schema:
    """A struct of named fields, in order."""
    return Schema(SchemaType.STRUCT, fields=fields.items(), name=name, version=version, optional=optional, doc=doc)


def array(values: Schema, *, optional: bool = False) -> Schema:
    """A list of values with one schema."""
    return Schema(SchemaType.ARRAY, values=values, optional=optional)


def mapping(keys: Schema, values: Schema, *, optional: bool = False) -> Schema:
    """A map whose keys have one schema, and its values another."""
    return Schema(SchemaType.MAP, keys=keys, values=values, optional=optional)


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
