"""Schemas of keys, values and header values. They follow Kafka Connect's data model, so converters write the same
bytes.

A record needs no schema: its values are then plain Python ones (strings, numbers, lists, mappings). A schema gives the
exact type of a value, and can have a name, a version, a description, parameters, and a default.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple


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
