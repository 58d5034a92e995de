"""Converts Spark's types to Kafka Connect's schemas."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import types as spark

from ringfence.connectors.api import ConnectorError, Schema, SchemaType, Struct
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.api.structs import fit
from ringfence.connectors.values.moments import micros

_PLAIN: Final[dict[type[spark.DataType], Schema]] = {
    spark.BooleanType: connect.BOOLEAN,
    spark.ByteType: connect.INT8,
    spark.ShortType: connect.INT16,
    spark.IntegerType: connect.INT32,
    spark.LongType: connect.INT64,
    spark.FloatType: connect.FLOAT32,
    spark.DoubleType: connect.FLOAT64,
    spark.StringType: connect.STRING,
    spark.CharType: connect.STRING,
    spark.VarcharType: connect.STRING,
    spark.BinaryType: connect.BYTES,
    spark.DateType: connect.DATE,
}
_MICROS: Final = Schema(SchemaType.INT64, name="io.debezium.time.MicroTimestamp", version=1)
"""Spark's timestamps have microseconds; Kafka Connect's own type has milliseconds."""

ValueOf = Callable[[Any], object]


class RowType(NamedTuple):
    """make: creates a struct from a row, which is a sequence in the order of the columns."""

    schema: Schema
    make: Callable[[Sequence[Any]], Struct]


def describe(columns: spark.StructType) -> RowType:
    """Return the schema of the columns. Raises `ConnectorError` for a type that records cannot have."""
    schema = _struct(columns)
    converters = [_value_of(field.dataType) for field in columns.fields]
    names = [field.name for field in columns.fields]

    def make(row: Sequence[Any]) -> Struct:
        if len(row) != len(names):
            raise ConnectorError(f"The data source returned a row of {len(row)} values for {len(names)} columns.")
        values = [None if value is None else convert(value) for value, convert in zip(row, converters, strict=True)]
        return Struct(schema, dict(zip(names, values, strict=True)))

    return RowType(schema, make)


def _schema(kind: spark.DataType) -> Schema:
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    if isinstance(kind, spark.DecimalType):
        return connect.decimal(kind.scale)
    if isinstance(kind, spark.TimestampType | spark.TimestampNTZType):
        return _MICROS
    if isinstance(kind, spark.ArrayType):
        return connect.array(_schema(kind.elementType).but(optional=kind.containsNull))
    if isinstance(kind, spark.MapType):
        return connect.mapping(_schema(kind.keyType), _schema(kind.valueType).but(optional=kind.valueContainsNull))
    if isinstance(kind, spark.StructType):
        return _struct(kind)
    raise ConnectorError(f"The data source has a column of the type {kind.simpleString()}, which records cannot have.")


def _struct(columns: spark.StructType) -> Schema:
    return connect.struct(
        {field.name: _schema(field.dataType).but(optional=field.nullable) for field in columns.fields}
    )


def _value_of(kind: spark.DataType) -> ValueOf:
    if isinstance(kind, spark.TimestampType | spark.TimestampNTZType):
        return micros
    if isinstance(kind, spark.ArrayType):
        inner = _value_of(kind.elementType)
        return lambda values: [None if each is None else inner(each) for each in values]
    if isinstance(kind, spark.MapType):
        of_key, of_value = _value_of(kind.keyType), _value_of(kind.valueType)
        return lambda values: {of_key(key): None if value is None else of_value(value) for key, value in values.items()}
    if isinstance(kind, spark.StructType):
        schema, columns = _struct(kind), kind.fields
        converters = [_value_of(field.dataType) for field in columns]

        def make(row: Any) -> object:
            values = [row[field.name] for field in columns] if isinstance(row, dict) else list(row)
            converted_values = [
                None if each is None else convert(each) for each, convert in zip(values, converters, strict=True)
            ]
            return {field.name: value for field, value in zip(columns, converted_values, strict=True)}

        return lambda row: make(row) if row is not None else fit(schema, None)
    return lambda value: value
