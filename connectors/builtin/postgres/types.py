"""Maps PostgreSQL types to schemas and readers, as Debezium does; with columns' defaults, and what stands for a large
value (TOAST) that an update did not change: the server does not send it.

A literal default becomes its value. An expression that is evaluated for each row (a function, a sequence) becomes the
type's zero if the column is required, because a schema's default is a constant. It never replaces a real value.
"""

import base64
import hashlib
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import MAX_PREC, Decimal, localcontext
from typing import Any, Final, NamedTuple

import orjson

from ringfence.connectors.api import ConnectorError, Schema, SchemaType, Struct, schemas
from ringfence.connectors.api.schemas import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    array,
    decimal,
    mapping,
    single,
)
from ringfence.connectors.builtin.postgres import text_values
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value
from ringfence.connectors.sdk.values.moments import EPOCH

Read = Callable[[bytes], Any]


class PgType(NamedTuple):
    """A row of pg_type. kind: typtype (b, c, d, e, r, m); base, base_typmod: for a domain; element: for an array;
    labels: for an enum; delimiter: between the elements of an array of it.
    """

    oid: int
    name: str
    kind: str
    base: int
    base_typmod: int
    element: int
    labels: tuple[str, ...]
    delimiter: str


class ColumnType(NamedTuple):
    """A column's type in records.

    schema: a required one; a nullable column makes it optional; read: converts PostgreSQL's text; zero: the default of
    a required column whose default is an expression; defaults: whether schemas contain the column's default, as in
    Debezium for most types; unknown: replaces an unknown value of a required column, None for `zero`; read_default:
    converts a default, None for `read`; pairs: whether strings are JSON objects of the pairs of an hstore.
    """

    schema: Schema
    read: Read
    zero: object
    defaults: bool = True
    unknown: object = None
    read_default: Read | None = None
    pairs: bool = False

    @property
    def filler(self) -> object:
        """What replaces an unknown value of a required column."""
        return self.zero if self.unknown is None else self.unknown


@dataclass(frozen=True, slots=True)
class TypeSettings:
    """The settings that determine how types are written."""

    decimals: str = "precise"
    times: str = "adaptive"
    binary: str = "bytes"
    intervals: str = "numeric"
    hstore: str = "json"
    money_digits: int = 2
    unknown: bool = False
    unsupported: Handling = Handling.NULL

    def handle_unsupported(self, reason: str, raw: bytes) -> None:
        """Replace a value that its type cannot hold by null, or raise `DataException`. reason: why it cannot."""
        if self.unsupported is not Handling.NULL:
            raise refuse_value(reason, raw.decode(errors="replace"))


def _logical(type_: SchemaType, name: str, **parameters: str) -> Schema:
    return Schema(type_, name=name, version=1, parameters=parameters)


DATE: Final = _logical(SchemaType.INT32, "io.debezium.time.Date")
TIME: Final = _logical(SchemaType.INT32, "io.debezium.time.Time")
MICRO_TIME: Final = _logical(SchemaType.INT64, "io.debezium.time.MicroTime")
TIMESTAMP: Final = _logical(SchemaType.INT64, "io.debezium.time.Timestamp")
MICRO_TIMESTAMP: Final = _logical(SchemaType.INT64, "io.debezium.time.MicroTimestamp")
ZONED_TIMESTAMP: Final = _logical(SchemaType.STRING, "io.debezium.time.ZonedTimestamp")
ZONED_TIME: Final = _logical(SchemaType.STRING, "io.debezium.time.ZonedTime")
MICRO_DURATION: Final = _logical(SchemaType.INT64, "io.debezium.time.MicroDuration")
INTERVAL: Final = _logical(SchemaType.STRING, "io.debezium.time.Interval")
JSON: Final = _logical(SchemaType.STRING, "io.debezium.data.Json")
XML: Final = _logical(SchemaType.STRING, "io.debezium.data.Xml")
UUID: Final = _logical(SchemaType.STRING, "io.debezium.data.Uuid")
TSVECTOR: Final = _logical(SchemaType.STRING, "io.debezium.data.Tsvector")
LTREE: Final = _logical(SchemaType.STRING, "io.debezium.data.Ltree")
_ZERO: Final[Mapping[SchemaType, object]] = {
    SchemaType.INT16: 0,
    SchemaType.INT32: 0,
    SchemaType.INT64: 0,
    SchemaType.FLOAT32: 0.0,
    SchemaType.FLOAT64: 0.0,
    SchemaType.BOOLEAN: False,
    SchemaType.STRING: "",
    SchemaType.BYTES: b"",
}


def read_text(raw: bytes) -> str:
    return raw.decode()


def read_bool(raw: bytes) -> bool:
    return raw == b"t"


def _single(raw: bytes) -> float:
    return single(float(raw))


def _bytea(raw: bytes) -> bytes:
    return bytes.fromhex(raw[2:].decode())


def _plain(schema: Schema, read: Read) -> ColumnType:
    return ColumnType(schema, read, _ZERO[schema.type])


_BY_NAME: Final[Mapping[str, ColumnType]] = {
    "bool": _plain(BOOLEAN, read_bool),
    "int2": _plain(INT16, int),
    "int4": _plain(INT32, int),
    "int8": _plain(INT64, int),
    "oid": ColumnType(INT64, int, 0, defaults=False),
    "float4": _plain(FLOAT32, _single),
    "float8": _plain(FLOAT64, float),
    "json": ColumnType(JSON, read_text, "{}", unknown=""),
    "jsonb": ColumnType(JSON, read_text, "{}", unknown=""),
    "xml": _plain(XML, read_text),
    "uuid": ColumnType(UUID, read_text, "00000000-0000-0000-0000-000000000000", unknown=""),
    "date": _plain(DATE, text_values.day_of),
    "timetz": ColumnType(ZONED_TIME, text_values.zoned_time, "00:00:00Z", defaults=False),
    "tsvector": _plain(TSVECTOR, read_text),
    "ltree": _plain(LTREE, read_text),
}
_TEXTS: Final = frozenset(
    [
        "text",
        "varchar",
        "bpchar",
        "char",
        "name",
        "citext",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
        "isbn",
        "ean13",
    ]
)
_ADAPTIVE: Final = "adaptive"
_CONNECT: Final = "connect"


class Types:
    """The types of one database. find(oid): reads an unknown type from the catalog."""

    def __init__(self, settings: TypeSettings, find: Callable[[int], PgType]) -> None:
        self._settings = settings
        self._find = find
        self._types: dict[int, PgType] = {}
        self._columns: dict[tuple[int, int, int], ColumnType | None] = {}

    def column(self, oid: int, typmod: int, dimensions: int = 1) -> ColumnType | None:
        """Return a column's type, or None if it is not supported. dimensions: those declared for an array."""
        key = (oid, typmod, dimensions)
        if key not in self._columns:
            self._columns[key] = self._make(self._type(oid), typmod, max(dimensions, 1))
        return self._columns[key]

    def name(self, oid: int) -> str:
        return self._type(oid).name

    def _type(self, oid: int) -> PgType:
        pg_type = self._types.get(oid)
        if pg_type is None:
            pg_type = self._types[oid] = self._find(oid)
        return pg_type

    def _make(self, type_: PgType, typmod: int, dimensions: int) -> ColumnType | None:
        if type_.kind == "d":
            inner = type_.base_typmod if type_.base_typmod >= 0 else typmod
            return self._make(self._type(type_.base), inner, dimensions)
        if type_.kind == "e":
            schema = _logical(SchemaType.STRING, "io.debezium.data.Enum", allowed=",".join(type_.labels))
            return ColumnType(schema, read_text, type_.labels[0] if type_.labels else "", unknown="")
        if type_.element and type_.name.startswith("_"):
            return self._array(type_, typmod, dimensions)
        if type_.name in _TEXTS:
            return _plain(STRING, read_text)
        if type_.name in text_values.SHAPES:
            read, zero = text_values.SHAPES[type_.name]
            return ColumnType(zero.schema, read, zero, defaults=False)
        column_type = _BY_NAME.get(type_.name)
        if column_type is not None and not (type_.name == "date" and self._settings.times == _CONNECT):
            return column_type
        make = getattr(self, f"_{type_.name}", None) if type_.name in _SPECIAL else None
        if make is not None:
            return make(typmod)  # type: ignore[no-any-return] # a method of this class
        if self._settings.unknown:
            return self._binary(bytes)
        return None

    def _array(self, type_: PgType, typmod: int, dimensions: int) -> ColumnType | None:
        inner = self._make(self._type(type_.element), typmod, 1)
        if inner is None:
            return None
        element = inner.schema if self._type(type_.element).kind == "e" else inner.schema.but(optional=True)
        schema = array(element)
        for _ in range(dimensions - 1):
            schema = array(schema.but(optional=True))
        if self._settings.unsupported is Handling.TEXT:
            return _plain(STRING, read_text)
        delimiter = self._type(type_.element).delimiter
        read_element, unsupported = inner.read, self._settings.handle_unsupported

        def read(raw: bytes) -> object:
            elements = text_values.unescape_array(raw.decode(), delimiter)
            if not elements:
                return elements
            depth = text_values.depth_of(elements)
            if depth > dimensions:
                unsupported(
                    f"the array has more dimensions than the {dimensions} that its column is declared with", raw
                )
                return None
            for _ in range(depth, dimensions):
                elements = [elements]
            return text_values.convert_elements(elements, read_element)

        return ColumnType(schema, read, [])

    def _numeric(self, typmod: int) -> ColumnType:
        mode = self._settings.decimals
        if mode == "double":
            return _plain(FLOAT64, float)
        precision, scale = ((typmod - 4) >> 16) & 0xFFFF, (((typmod - 4) & 0x7FF) ^ 1024) - 1024
        if mode == "string" or self._settings.unsupported is Handling.TEXT:
            nothing = "0" if typmod < 0 or scale < 0 else f"{0:.{scale}f}"
            read_default = (lambda raw: f"{Decimal(raw.decode()):.{scale}f}") if typmod >= 0 and scale >= 0 else None
            return ColumnType(STRING, read_text, "", unknown=nothing, read_default=read_default)
        unsupported = self._settings.handle_unsupported
        if typmod < 0:
            return ColumnType(
                text_values.VARIABLE_SCALE_DECIMAL,
                text_values.variable_decimal(unsupported),
                Struct.of(text_values.VARIABLE_SCALE_DECIMAL, [0, b"\0"]),
            )
        schema = decimal(scale)
        schema = schema.but(parameters={**schema.parameters, "connect.decimal.precision": str(precision)})
        return ColumnType(schema, text_values.exact_decimal(scale, unsupported), Decimal(0).scaleb(-scale))

    def _money(self, typmod: int) -> ColumnType:
        digits = self._settings.money_digits
        mode = self._settings.decimals

        read = text_values.money(digits)
        if mode == "double":
            return _plain(FLOAT64, lambda raw: float(read(raw)))
        if mode == "string":
            return _plain(STRING, lambda raw: str(read(raw)))._replace(unknown=f"{0:.{digits}f}")
        return ColumnType(decimal(digits), read, Decimal(0).scaleb(-digits), defaults=False)

    def _bytea(self, typmod: int) -> ColumnType:
        return self._binary(_bytea)

    def _binary(self, read: Callable[[bytes], bytes]) -> ColumnType:
        """Return the type of binary values, as `binary.handling.mode` writes them."""
        match self._settings.binary:
            case "base64":
                return _plain(STRING, lambda raw: base64.b64encode(read(raw)).decode())
            case "base64-url-safe":
                return _plain(STRING, lambda raw: base64.urlsafe_b64encode(read(raw)).decode())
            case "hex":
                return _plain(STRING, lambda raw: read(raw).hex())
            case _:
                return _plain(BYTES, read)

    def _bit(self, typmod: int) -> ColumnType:
        return _plain(BOOLEAN, lambda raw: raw == b"1") if typmod == 1 else self._varbit(typmod)

    def _varbit(self, typmod: int) -> ColumnType:
        length = typmod if typmod > 0 else 2_147_483_647
        return _plain(_logical(SchemaType.BYTES, "io.debezium.data.Bits", length=str(length)), text_values.bits_of)

    def _date(self, typmod: int) -> ColumnType:
        return ColumnType(schemas.DATE, text_values.connect_date, EPOCH.date())

    def _time(self, typmod: int) -> ColumnType:
        if self._settings.times == _CONNECT:
            return ColumnType(schemas.TIME, text_values.connect_time, text_values.MIDNIGHT)
        if 0 <= typmod <= 3 and self._settings.times == _ADAPTIVE:
            return _plain(TIME, text_values.time_millis)
        return _plain(MICRO_TIME, text_values.time_micros)

    def _timestamp(self, typmod: int) -> ColumnType:
        if self._settings.times == _CONNECT:
            return ColumnType(schemas.TIMESTAMP, text_values.connect_timestamp, EPOCH)
        if 0 <= typmod <= 3:
            return _plain(TIMESTAMP, text_values.millis_of)
        return _plain(MICRO_TIMESTAMP, text_values.micros_of)

    def _timestamptz(self, typmod: int) -> ColumnType:
        read = text_values.zoned_timestamp(6 if typmod < 0 else typmod)
        return ColumnType(ZONED_TIMESTAMP, read, "1970-01-01T00:00:00.000000Z", unknown="1970-01-01T00:00:00Z")

    def _interval(self, typmod: int) -> ColumnType:
        if self._settings.intervals == "string":
            return _plain(INTERVAL, text_values.interval_iso)._replace(unknown=text_values.interval_iso(b"00:00:00"))
        return _plain(MICRO_DURATION, text_values.interval_micros)

    def _hstore(self, typmod: int) -> ColumnType:
        if self._settings.hstore == "map":
            schema = mapping(STRING, STRING.but(optional=True))
            return ColumnType(schema, lambda raw: text_values.hstore_pairs(raw.decode()), {})
        return ColumnType(
            JSON, lambda raw: orjson.dumps(text_values.hstore_pairs(raw.decode())).decode(), "{}", pairs=True
        )

    def _point(self, typmod: int) -> ColumnType:
        return ColumnType(text_values.POINT, text_values.read_point, text_values.read_point(b"(0,0)"))


_SPECIAL: Final = frozenset(
    [
        "numeric",
        "money",
        "bytea",
        "bit",
        "varbit",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
        "hstore",
        "point",
    ]
)


_LITERAL: Final = re.compile(r"^\(?B?'((?:[^']|'')*)'(?:::.*)?\)?$", re.DOTALL)
_NUMBER: Final = re.compile(r"^\(?(-?\d+(?:\.\d+)?)\)?(?:::.*)?$")
_WORDS: Final = {"true": b"t", "false": b"f"}
_NO_DEFAULTS: Final = frozenset({SchemaType.ARRAY, SchemaType.STRUCT, SchemaType.MAP, SchemaType.BYTES})


def default_of(expression: str | None, type_: ColumnType, required: bool) -> object:
    """Return the schema's default value, or None if it has none."""
    if expression is None or not type_.defaults or expression.upper().startswith("NULL"):
        return None
    schema = type_.schema
    if schema.type in _NO_DEFAULTS and schema.name != "org.apache.kafka.connect.data.Decimal":
        return None
    text = _literal(expression)
    if text is None:
        return type_.zero if required else None
    try:
        value = (type_.read_default or type_.read)(text)
        if isinstance(value, Decimal):
            with localcontext(prec=MAX_PREC):
                return value.quantize(Decimal(1).scaleb(-int(schema.parameters["scale"])))
    except (ValueError, ArithmeticError, LookupError, TypeError, ConnectorError):
        return type_.zero if required else None
    return value


def _literal(expression: str) -> bytes | None:
    if (word := _WORDS.get(expression)) is not None:
        return word
    if match := _LITERAL.match(expression):
        return match[1].replace("''", "'").encode()
    if match := _NUMBER.match(expression):
        return match[1].encode()
    return None


_BYTES_OF: Final = frozenset(
    [(SchemaType.INT32, None), (SchemaType.INT64, None), (SchemaType.INT32, "io.debezium.time.Date")]
)
"""Type and name of an array's elements for which Debezium writes the placeholder's bytes, each as an element."""


def unavailable_value(column_type: ColumnType, placeholder: str) -> object:
    """Return Debezium's value; None for types that cannot hold the placeholder: null, also in a required column."""
    schema = column_type.schema
    if column_type.pairs:
        return orjson.dumps({placeholder: placeholder}).decode()
    if schema.type is SchemaType.STRING:
        return placeholder
    if schema.type is SchemaType.BYTES and schema.name is None:
        return placeholder.encode()
    if schema.type is SchemaType.ARRAY and schema.values is not None:
        return _unavailable_array(schema.values, placeholder)
    if schema.type is SchemaType.MAP:
        return {placeholder: placeholder}
    return None


def _unavailable_array(element: Schema, placeholder: str) -> object:
    if element.name == "io.debezium.data.Uuid":
        return [_uuid_of(placeholder)]
    if element.type is SchemaType.STRING:
        return [placeholder]
    if element.type is SchemaType.BYTES and element.name is None:
        return [placeholder.encode()]
    if (element.type, element.name) in _BYTES_OF:
        return list(placeholder.encode())
    return None


def _uuid_of(text: str) -> str:
    """Return Java's `UUID.nameUUIDFromBytes`."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))
