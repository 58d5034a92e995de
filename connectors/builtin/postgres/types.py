"""Maps PostgreSQL types to schemas and readers, as Debezium does."""

import base64
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

import orjson

from ringfence.connectors.api import Schema, SchemaType, Struct
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
)
from ringfence.connectors.api.structs import single
from ringfence.connectors.builtin.postgres import connect_times, geometries, numbers, text_values
from ringfence.connectors.builtin.postgres.column_types import ColumnType, PgType, Read, TypeSettings
from ringfence.connectors.unsupported_values import Handling
from ringfence.connectors.values.moments import EPOCH


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
_ADAPTIVE_MICROS: Final = "adaptive_time_microseconds"
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
        if type_.name in geometries.SHAPES:
            read, zero = geometries.SHAPES[type_.name]
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
                numbers.VARIABLE_SCALE_DECIMAL,
                numbers.variable_decimal(unsupported),
                Struct.of(numbers.VARIABLE_SCALE_DECIMAL, [0, b"\0"]),
            )
        schema = decimal(scale)
        schema = schema.but(parameters={**schema.parameters, "connect.decimal.precision": str(precision)})
        return ColumnType(schema, numbers.exact_decimal(scale, unsupported), Decimal(0).scaleb(-scale))

    def _money(self, typmod: int) -> ColumnType:
        digits = self._settings.money_digits
        mode = self._settings.decimals

        read = numbers.money(digits)
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
        return ColumnType(connect_times.DATE, connect_times.read_date, EPOCH.date())

    def _time(self, typmod: int) -> ColumnType:
        if self._settings.times == _CONNECT:
            return ColumnType(connect_times.TIME, connect_times.read_time, connect_times.MIDNIGHT)
        if 0 <= typmod <= 3 and self._settings.times == _ADAPTIVE:
            return _plain(TIME, text_values.time_millis)
        return _plain(MICRO_TIME, text_values.time_micros)

    def _timestamp(self, typmod: int) -> ColumnType:
        if self._settings.times == _CONNECT:
            return ColumnType(connect_times.TIMESTAMP, connect_times.read_timestamp, EPOCH)
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
        return ColumnType(geometries.POINT, geometries.read_point, geometries.read_point(b"(0,0)"))


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
