"""Converts columns to Kafka Connect's fields, with the JDBC source connector's types."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple

import sqlalchemy as sa

from ringfence.connectors.api import ParsedConfig, Schema
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.zones import load_zone

ValueOf = Callable[[Any], object]
_JDBC_SCALE = 127
"""The scale of a NUMERIC without one, as in the JDBC source connector."""


class ColumnType(NamedTuple):
    """value_of: converts a value; None if the driver's values fit the schema."""

    schema: Schema
    value_of: ValueOf | None


def describe_all(relation: sa.FromClause, settings: ParsedConfig, *, wide: bool) -> Sequence[tuple[str, ColumnType]]:
    """Return the names and fields of all columns. wide: every integer may have 64 bits."""
    zone, numeric = load_zone(settings.string(names.ZONE)), settings.string(names.NUMERIC)
    # SQLAlchemy's names are instances of its own class, which no converter knows.
    return [
        (str(one.name), describe(one, zone, numeric, wide=wide))
        for one in relation.columns
        if isinstance(one, sa.Column)
    ]


def describe(column: "sa.Column[Any]", zone: tzinfo, numeric: str, *, wide: bool) -> ColumnType:
    """Return the field of a column.

    zone: the time zone of columns without one. numeric: see the setting `numeric.mapping`. wide: every integer may have
    64 bits.
    """
    column_type = _describe(column.type, zone, numeric, wide)
    return ColumnType(column_type.schema.but(optional=True), column_type.value_of) if column.nullable else column_type


def _describe(type: "sa.types.TypeEngine[Any]", zone: tzinfo, numeric: str, wide: bool) -> ColumnType:
    unsigned = bool(getattr(type, "unsigned", False))  # for MySQL
    if isinstance(type, sa.Boolean):
        return ColumnType(connect.BOOLEAN, bool)
    if isinstance(type, sa.SmallInteger) and not wide:
        return ColumnType(connect.INT32 if unsigned else connect.INT16, None)
    if isinstance(type, sa.BigInteger):
        return ColumnType(connect.decimal(0), Decimal) if unsigned else ColumnType(connect.INT64, None)
    if isinstance(type, sa.Integer):
        # SQLite's integers have 64 bits, whatever the type's name.
        return ColumnType(connect.INT64 if unsigned or wide else connect.INT32, None)
    if isinstance(type, sa.Float):  # a subclass of Numeric
        return ColumnType(connect.FLOAT64, float)
    if isinstance(type, sa.Numeric):
        return _number(type, numeric)
    if isinstance(type, sa.DateTime):
        return ColumnType(connect.TIMESTAMP, lambda moment: _in_utc(moment, zone))
    if isinstance(type, sa.Date):
        return ColumnType(connect.DATE, None)
    if isinstance(type, sa.Time):
        return ColumnType(connect.TIME, None)
    if isinstance(type, sa.LargeBinary):
        return ColumnType(connect.BYTES, bytes)
    if isinstance(type, sa.JSON):
        return ColumnType(connect.STRING, lambda value: value if isinstance(value, str) else json.dumps(value))
    if isinstance(type, sa.String):
        return ColumnType(connect.STRING, None)
    return ColumnType(connect.STRING, str)


def _number(type: "sa.Numeric[Any]", numeric: str) -> ColumnType:
    precision, scale = type.precision, type.scale
    if numeric == names.BEST_FIT and precision is not None and precision < 19:
        if not scale:
            return ColumnType(connect.INT32 if precision < 10 else connect.INT64, int)
        return ColumnType(connect.FLOAT64, float)
    places = _JDBC_SCALE if scale is None and precision is None else scale or 0
    step = Decimal(1).scaleb(-places)
    if places == _JDBC_SCALE:
        return ColumnType(connect.STRING, str)  # a decimal with 127 places is useless
    return ColumnType(connect.decimal(places), lambda value: Decimal(value).quantize(step))


def _in_utc(moment: datetime, zone: tzinfo) -> datetime:
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
