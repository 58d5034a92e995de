"""Converts columns to Kafka Connect's fields, with the JDBC source connector's types."""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

from ringfence.connectors.api import DataException
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.driver_values import ColumnType, DriverValues
from ringfence.connectors.row_records import ValueOf
from ringfence.connectors.unsupported_values import Handling

_BINARY: Final = (sa.LargeBinary, sa.BINARY, sa.VARBINARY, mysql.TINYBLOB, mysql.MEDIUMBLOB, mysql.LONGBLOB)


def describe_all(relation: sa.FromClause, values: DriverValues, numeric: str) -> Sequence[tuple[str, ColumnType]]:
    """Return the names and fields of all columns. numeric: see the setting `numeric.mapping`."""
    # SQLAlchemy's names are instances of its own class, which no converter knows.
    return [(str(one.name), describe(one, values, numeric)) for one in relation.columns if isinstance(one, sa.Column)]


def describe(column: "sa.Column[Any]", values: DriverValues, numeric: str) -> ColumnType:
    """Return the field of a column, with the chosen treatment of values that its type cannot hold."""
    described = _describe(column.type, values, numeric)
    schema, value_of = described.schema, described.value_of
    if values.wide and _is_row_id(column):
        described = described._replace(partial=False)
    if described.partial and values.handling is Handling.TEXT:
        schema, value_of = connect.STRING, described.text_of
    elif described.partial and values.handling is Handling.NULL and value_of is not None:
        schema, value_of = schema.but(optional=True), _or_null(value_of)
    return described._replace(schema=schema.but(optional=True) if column.nullable else schema, value_of=value_of)


def _is_row_id(column: "sa.Column[Any]") -> bool:
    """Return whether it is SQLite's INTEGER PRIMARY KEY, the only column of which it checks the values."""
    alone = column.primary_key and len(column.table.primary_key.columns) == 1
    return bool(alone) and isinstance(column.type, sa.Integer)


def _or_null(value_of: ValueOf) -> ValueOf:
    def convert(value: object) -> object:
        try:
            return value_of(value)
        except DataException:
            return None

    return convert


def _describe(type: "sa.types.TypeEngine[Any]", values: DriverValues, numeric: str) -> ColumnType:
    if isinstance(type, postgresql.DOMAIN):
        return _describe(type.data_type, values, numeric)
    if isinstance(type, sa.Boolean):
        return values.boolean()
    if isinstance(type, sa.Integer):
        return _integer(type, values)
    if isinstance(type, sa.Float):  # a subclass of Numeric
        return values.real()
    if isinstance(type, sa.Numeric):
        return _number(type, values, numeric)
    if isinstance(type, sa.DateTime):
        return values.timestamp()
    if isinstance(type, sa.Date):
        return values.date()
    if isinstance(type, sa.Time):
        return values.time_of_day()
    if isinstance(type, _BINARY):
        return values.binary()
    if isinstance(type, mysql.BIT):
        return _bits(type.length or 1)
    return values.text() if isinstance(type, sa.String) else values.other()


def _integer(type: "sa.Integer", values: DriverValues) -> ColumnType:
    unsigned = bool(getattr(type, "unsigned", False))  # for MySQL
    if values.wide:
        return values.integer(connect.INT64)
    if isinstance(type, sa.SmallInteger):
        return values.integer(connect.INT32 if unsigned else connect.INT16)
    if isinstance(type, sa.BigInteger):
        return values.big_unsigned_integer() if unsigned else values.integer(connect.INT64)
    return values.integer(connect.INT64 if unsigned else connect.INT32)


def _number(type: "sa.Numeric[Any]", values: DriverValues, numeric: str) -> ColumnType:
    precision, scale = type.precision, type.scale
    if precision is None and scale is None:
        return values.decimal_as_text()  # the JDBC source connector's decimal with 127 places is useless
    scale = scale or 0
    if numeric == names.BEST_FIT and precision is not None and precision < 19:
        if scale > 0:
            return values.decimal_as_real()
        if precision - scale < 19:
            return values.decimal_as_integer(connect.INT32 if precision - scale < 10 else connect.INT64)
    return values.decimal(scale)


def _bits(length: int) -> ColumnType:
    """MySQL's bits, as its JDBC driver delivers them: one as a small number, more as bytes."""
    if length == 1:
        return ColumnType(connect.INT8, lambda value: int.from_bytes(value, "big"))
    return ColumnType(connect.BYTES)
