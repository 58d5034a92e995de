"""PostgreSQL's values, as psycopg delivers them."""

from collections.abc import Mapping
from datetime import time, tzinfo
from decimal import Decimal
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.types.string import TextLoader
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ConnectorError, DistantTimestamp, Schema
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.sql.driver_values import (
    ColumnType,
    DriverValues,
    Row,
    decimal_of_scale,
    integer_of_decimal,
    time_of_micros,
)
from ringfence.connectors.builtin.sql.time_texts import (
    BEGINNING,
    DAY_US,
    END,
    INFINITE_MS,
    micros_of_text,
    parse_moment,
    parse_time,
)
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value
from ringfence.connectors.sdk.values.moments import date_of_day, timestamp_of_micros

SESSION: Final[Mapping[str, str]] = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "bytea_output": "hex",
}
"""Settings of the server under which each value has one text."""
_TIMES: Final = frozenset([1082, 1083, 1266, 1114, 1184])
"""date, time, timetz, timestamp, timestamptz, whose values Python does not hold all."""
_NUMERIC: Final = 1700
_PLAIN: Final = frozenset([16, 17, 18, 19, 20, 21, 23, 25, 700, 701, 1042, 1043, _NUMERIC, *_TIMES])
"""The types whose values are not read as text: also bool, bytea, integers, floats and strings."""


class _Lenient(Loader):
    """Loads values as psycopg does, and those that Python lacks as text."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        loader = psycopg.adapters.get_loader(oid, Format.TEXT)
        assert loader is not None
        self._load = loader(oid, context).load

    def load(self, data: Buffer) -> object:
        try:
            return self._load(data)
        except psycopg.DataError:
            return bytes(data).decode()


class PostgresValues(DriverValues):
    """Times that Python lacks are read as text, once there was one: reading all by this module takes longer."""

    def __init__(self, handling: Handling, zone: tzinfo) -> None:
        super().__init__(handling, zone)
        self._lenient = False

    def prepare(self, connection: Any) -> None:
        adapters = connection.adapters
        for info in psycopg.adapters.types:
            for oid in (info.oid, info.array_oid):
                if oid and oid not in _PLAIN:
                    adapters.register_loader(oid, TextLoader)
        for oid in _TIMES:
            if self.handling is Handling.TEXT:
                adapters.register_loader(oid, TextLoader)
            elif self._lenient:
                adapters.register_loader(oid, _Lenient)
        if self.handling is Handling.TEXT:
            adapters.register_loader(_NUMERIC, TextLoader)

    def fetch(self, connection: Connection, statement: "sa.Select[Any]") -> list[Row]:
        try:
            return super().fetch(connection, statement)
        except psycopg.DataError:  # by the client: the server's come as errors of SQLAlchemy
            self._lenient = True
            self.prepare(connection.connection.driver_connection)
            return super().fetch(connection, statement)

    def decimal(self, scale: int) -> ColumnType:
        return ColumnType(connect.decimal(scale), decimal_of_scale(scale), True)

    def decimal_as_integer(self, schema: Schema) -> ColumnType:
        return ColumnType(schema, integer_of_decimal, True)

    def decimal_as_text(self) -> ColumnType:
        return ColumnType(connect.STRING, lambda value: f"{value:f}" if isinstance(value, Decimal) else value)

    def odd_date(self, value: str) -> object:
        if value in INFINITE_MS:
            raise refuse_value("the date is infinite", value)
        return date_of_day(parse_moment(value).day)

    def time_of(self, value: Any) -> time:
        """A time with a time zone becomes one in UTC, as with the JDBC driver."""
        if value.__class__ is not time:
            micros, offset = parse_time(value)
            if micros == DAY_US:
                raise refuse_value("the time is not within one day", value)
            return time_of_micros((micros - (offset or 0)) % DAY_US, value)
        if not value.utcoffset():
            return value if value.tzinfo is None else value.replace(tzinfo=None)
        micros, offset = parse_time(value.isoformat())
        return time_of_micros((micros - (offset or 0)) % DAY_US, value)

    def odd_timestamp(self, value: str) -> object:
        """An infinite timestamp becomes what the JDBC driver delivers, unless it is to be null."""
        infinite = INFINITE_MS.get(value)
        if infinite is None:
            return timestamp_of_micros(micros_of_text(value, self.zone))
        if self.handling is Handling.NULL:
            raise refuse_value("the timestamp is infinite", value)
        return DistantTimestamp(infinite)

    def odd_position(self, value: Any) -> int:
        if value == "infinity":
            return END
        try:
            return BEGINNING if value == "-infinity" else micros_of_text(value, self.zone)
        except (TypeError, ValueError) as error:
            raise ConnectorError("A time that rows are ordered by cannot be read.") from error
