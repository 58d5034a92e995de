"""Converts Spark's types to Kafka Connect's schemas, also those of schemas as text, such as `id bigint, tags
array<string>`. PySpark parses these in a JVM, which tasks do not have.
"""

import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from pyspark.sql import types as spark

from ringfence.connectors.api import ConnectorError, DataException, Schema, SchemaType, Struct
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.api.schemas import fit
from ringfence.connectors.sdk.row_records import ValueOf, convert_value
from ringfence.connectors.sdk.values.decimals import exact_decimal
from ringfence.connectors.sdk.values.moments import micros

_ATOMS: Final[dict[str, spark.DataType]] = {
    "boolean": spark.BooleanType(),
    "byte": spark.ByteType(),
    "tinyint": spark.ByteType(),
    "short": spark.ShortType(),
    "smallint": spark.ShortType(),
    "int": spark.IntegerType(),
    "integer": spark.IntegerType(),
    "long": spark.LongType(),
    "bigint": spark.LongType(),
    "float": spark.FloatType(),
    "real": spark.FloatType(),
    "double": spark.DoubleType(),
    "string": spark.StringType(),
    "binary": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
}
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z_]\w*|\d{1,9}|[<>(),:])")


def parse_ddl(text: str) -> spark.StructType:
    """Parse a schema. Raises `ConnectorError` for text that it does not understand."""
    return _Parser(text).read_fields(end="")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._error()
            self._tokens.append(match[1])
            at = match.end()

    def read_fields(self, end: str) -> spark.StructType:
        """Read `name type, name: type …` up to a token, or to the end of the text."""
        fields = []
        while True:
            name = self._take().strip("`").replace("``", "`")
            if self._peek() == ":":
                self._take()
            kind = self._read_type()
            nullable = True
            if self._peek().lower() == "not":
                self._take()
                if self._take().lower() != "null":
                    raise self._error()
                nullable = False
            fields.append(spark.StructField(name, kind, nullable))
            if self._peek() == end:
                if end:
                    self._take()
                return spark.StructType(fields)
            self._expect(",")

    def _read_type(self) -> spark.DataType:
        word = self._take().lower()
        if word in ("decimal", "numeric"):
            return self._read_decimal()
        if word == "array":
            self._expect("<")
            inner = self._read_type()
            self._expect(">")
            return spark.ArrayType(inner)
        if word == "map":
            self._expect("<")
            key = self._read_type()
            self._expect(",")
            value = self._read_type()
            self._expect(">")
            return spark.MapType(key, value)
        if word == "struct":
            self._expect("<")
            return self.read_fields(end=">")
        if word in _ATOMS:
            return _ATOMS[word]
        raise self._error()

    def _read_decimal(self) -> spark.DecimalType:
        precision, scale = 10, 0
        if self._peek() == "(":
            self._take()
            precision = int(self._take())
            if self._peek() == ",":
                self._take()
                scale = int(self._take())
            self._expect(")")
        return spark.DecimalType(precision, scale)

    def _peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _take(self) -> str:
        if not self._tokens:
            raise self._error()
        return self._tokens.pop(0)

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise self._error()

    def _error(self) -> ConnectorError:
        return ConnectorError(
            f"The data source's schema {self._text!r} cannot be read as columns with types. Let its schema() return a "
            "StructType."
        )


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


class RowType(NamedTuple):
    """make: creates a struct from a row: a sequence in the order of the columns, or a named `Row`. It raises
    `DataException`.
    """

    schema: Schema
    make: Callable[[object], Struct]


def describe(columns: spark.StructType) -> RowType:
    """Return the schema of the columns. Raises `ConnectorError` for a type that records cannot have."""
    schema = _struct(columns)
    names = [field.name for field in columns.fields]
    converters = [
        _check_against(_value_of(field.dataType), inner.schema)
        for field, inner in zip(columns.fields, schema.fields, strict=True)
    ]

    def make(row: object) -> Struct:
        values = _in_order(row, names)
        return Struct.of(
            schema,
            [convert_value(convert, each, name) for convert, each, name in zip(converters, values, names, strict=True)],
        )

    return RowType(schema, make)


def _in_order(row: object, names: Sequence[str]) -> Sequence[Any]:
    """Return a row's values in the order of the columns: by name if it is a named `Row`, as Spark does."""
    if not isinstance(row, list | tuple):
        raise DataException(f"the row is a {type(row).__name__}, not a tuple, a list or a Row")
    if isinstance(row, spark.Row) and hasattr(row, "__fields__"):
        if {*row.__fields__} != {*names}:
            raise DataException(f"the row has the fields {', '.join(row.__fields__)}, not {', '.join(names)}")
        return [row[name] for name in names]
    if len(row) != len(names):
        raise DataException(f"the row has {len(row)} values for {len(names)} columns")
    return row


def _check_against(convert: ValueOf, schema: Schema) -> ValueOf:
    def check(value: Any) -> object:
        return fit(schema, None if value is None else convert(value))

    return check


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
        return _micros
    if isinstance(kind, spark.DecimalType):
        return _decimal(kind.scale)
    if isinstance(kind, spark.StringType):
        return _text
    if isinstance(kind, spark.IntegralType):
        return _integer
    if isinstance(kind, spark.ArrayType):
        inner = _value_of(kind.elementType)
        return lambda values: [None if each is None else inner(each) for each in values]
    if isinstance(kind, spark.MapType):
        of_key, of_value = _value_of(kind.keyType), _value_of(kind.valueType)
        return lambda values: {of_key(key): None if value is None else of_value(value) for key, value in values.items()}
    if isinstance(kind, spark.StructType):
        return _inner_struct(kind)
    return lambda value: value


def _inner_struct(kind: spark.StructType) -> ValueOf:
    names = [field.name for field in kind.fields]
    converters = [_value_of(field.dataType) for field in kind.fields]

    def make(row: object) -> object:
        values = [row.get(name) for name in names] if isinstance(row, dict) else _in_order(row, names)
        return {
            name: None if each is None else convert(each)
            for name, each, convert in zip(names, values, converters, strict=True)
        }

    return make


def _micros(value: Any) -> int:
    if not isinstance(value, datetime):
        raise DataException(f"the value is a {type(value).__name__}, not a timestamp", value=value)
    return micros(value)


def _decimal(scale: int) -> ValueOf:
    exact = exact_decimal(scale)

    def convert(value: Any) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            value = Decimal(value)
        return exact(value) if isinstance(value, Decimal) else value  # which the schema refuses

    return convert


def _text(value: Any) -> object:
    """Return a number, a time or a UUID as text, as Spark does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float | Decimal | date | time | UUID) else value


def _integer(value: Any) -> object:
    """Return the integer that NumPy's integers are, and floats without a fraction, as Arrow does."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return value if isinstance(value, bool) or not hasattr(value, "__index__") else operator.index(value)
