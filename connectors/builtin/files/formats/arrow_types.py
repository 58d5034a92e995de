"""Converts Arrow's types to Kafka Connect's schemas. Import it only if pyarrow is installed."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from ringfence.connectors.api import Schema, SchemaType
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.api.structs import fit
from ringfence.connectors.builtin.files.formats.base import FormatError

Convert = Callable[[pa.Array], list[object]]

_SAME: Final[dict[pa.DataType, Schema]] = {
    pa.bool_(): connect.BOOLEAN,
    pa.int8(): connect.INT8,
    pa.int16(): connect.INT16,
    pa.int32(): connect.INT32,
    pa.int64(): connect.INT64,
    pa.uint8(): connect.INT16,
    pa.uint16(): connect.INT32,
    pa.uint32(): connect.INT64,
    pa.float16(): connect.FLOAT32,
    pa.float32(): connect.FLOAT32,
    pa.float64(): connect.FLOAT64,
    pa.string(): connect.STRING,
    pa.large_string(): connect.STRING,
    pa.string_view(): connect.STRING,
    pa.binary(): connect.BYTES,
    pa.large_binary(): connect.BYTES,
    pa.binary_view(): connect.BYTES,
    pa.date32(): connect.DATE,
    pa.date64(): connect.DATE,
    pa.null(): connect.STRING,
}
_FINER: Final = {
    "us": "io.debezium.time.Micro",
    "ns": "io.debezium.time.Nano",
}
"""Kafka Connect's own time types count milliseconds. For finer units, Debezium's schema names are used."""


def to_connect(arrow: pa.DataType, name: str) -> tuple[Schema, Convert]:
    """Return a column's schema, which is optional, and a function that converts its values. Raises `FormatError`."""
    schema = _schema(arrow, name)
    optional = schema.but(optional=True)
    if pa.types.is_nested(arrow):
        return optional, lambda column: [fit(optional, value, f"field {name}") for value in _plain(column)]
    return optional, _plain


def _schema(arrow: pa.DataType, name: str) -> Schema:
    if arrow in _SAME:
        return _SAME[arrow]
    types = pa.types
    if types.is_fixed_size_binary(arrow):
        return connect.BYTES
    if types.is_decimal(arrow):
        return connect.decimal(arrow.scale)
    if types.is_timestamp(arrow):
        return _moment(arrow.unit, connect.TIMESTAMP, "Timestamp")
    if types.is_time(arrow):
        return _moment(arrow.unit, connect.TIME, "Time")
    if types.is_dictionary(arrow):
        return _schema(arrow.value_type, name)
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return connect.array(_optional(arrow.value_type, name))
    if types.is_map(arrow):
        return connect.mapping(_schema(arrow.key_type, name), _optional(arrow.item_type, name))
    if types.is_struct(arrow):
        return connect.struct({field.name: _optional(field.type, f"{name}.{field.name}") for field in arrow})
    raise FormatError(f"its column {name} has the type {arrow}, which Kafka Connect's records do not support")


def _optional(arrow: pa.DataType, name: str) -> Schema:
    return _schema(arrow, name).but(optional=True)


def _moment(unit: str, coarse: Schema, name: str) -> Schema:
    if unit not in _FINER:
        return coarse
    return Schema(SchemaType.INT64, name=_FINER[unit] + name, version=1)


def _plain(column: pa.Array) -> list[object]:
    """Return Python values. Times finer than milliseconds become integers."""
    whole = _whole(column)
    # Only nested types contain maps. Asking for maps makes any column thirty times as slow.
    return list(whole.to_pylist(maps_as_pydicts="strict") if pa.types.is_nested(whole.type) else whole.to_pylist())


def _whole(column: pa.Array) -> pa.Array:
    storage_type = _storage_type(column.type)
    return column if storage_type == column.type else column.cast(storage_type)


def _storage_type(arrow: pa.DataType) -> pa.DataType:
    """Return the same type with integers for finer times, at any depth."""
    types = pa.types
    if (types.is_timestamp(arrow) or types.is_time(arrow)) and arrow.unit in _FINER:
        return pa.int64()
    if types.is_dictionary(arrow):
        return arrow.value_type
    if types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(_storage_type(arrow.value_type)))
    if types.is_large_list(arrow):
        return pa.large_list(arrow.value_field.with_type(_storage_type(arrow.value_type)))
    if types.is_struct(arrow):
        return pa.struct([field.with_type(_storage_type(field.type)) for field in arrow])
    if types.is_map(arrow):
        return pa.map_(_storage_type(arrow.key_type), _storage_type(arrow.item_type))
    return arrow
