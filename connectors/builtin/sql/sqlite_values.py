"""SQLite's values: any column may hold integers, reals, texts and blobs, whatever its type's name.

Numbers in columns of dates and times are those of SQLite's JDBC driver: an integer is milliseconds since 1970 (seconds
with `date_precision=seconds` in the URL), a real is a day of the Julian calendar.
"""

import math
import re
import sqlite3
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from typing import Any, ClassVar, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import DataException, DistantTimestamp, Schema, SchemaType
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.sql.driver_values import (
    ColumnType,
    DriverValues,
    Row,
    decimal_of_scale,
    time_of_micros,
)
from ringfence.connectors.builtin.sql.time_texts import BEGINNING, DAY_US, micros_of_text, parse_time
from ringfence.connectors.sdk.row_records import ValueOf
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value
from ringfence.connectors.sdk.values.moments import date_of_day, timestamp_of_micros

_MOST_VALUE: Final = 64 << 20
"""The bytes of a value or row of SQLite, which runs in this process: a query can make values of any size."""
MICROS: Final = "ringfence_micros"
"""The SQL function that returns the position of a time."""
_UTC: Final = "+00:00"
_parse: Final = datetime.fromisoformat
_EPOCH_JULIAN: Final = 2440587.5
_SIGNIFICANT: Final = ".15g"
"""The digits of a real that SQLite regards as exact."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}


class SqliteValues(DriverValues):
    """Values that are not of their column's class are refused, unless the text is plain: `true` in a BOOLEAN."""

    wide: ClassVar[bool] = True

    def __init__(self, handling: Handling, zone: tzinfo, unit_us: int = 1000) -> None:
        """unit_us: the microseconds that 1 stands for in columns of dates and times."""
        super().__init__(handling, zone)
        self._unit = unit_us
        self._lenient = False

    def prepare(self, connection: Any) -> None:
        limit_values(connection)
        connection.create_function(MICROS, 1, self._position_or_null, deterministic=True)
        if self._lenient:
            connection.text_factory = _text_or_bytes

    def fetch(self, connection: Connection, statement: "sa.Select[Any]") -> list[Row]:
        try:
            return super().fetch(connection, statement)
        except sqlite3.Error as error:
            if self._lenient or "UTF-8" not in str(error):
                raise sa.exc.DBAPIError.instance(None, None, error, sqlite3.Error) from error
        self._lenient = True
        self.prepare(connection.connection.driver_connection)
        return self.fetch(connection, statement)

    def boolean(self) -> ColumnType:
        return _column(connect.BOOLEAN, _boolean_of)

    def integer(self, schema: Schema) -> ColumnType:
        return _column(schema, _integer_of(64))

    def real(self) -> ColumnType:
        return _column(connect.FLOAT64, _real_of)

    def decimal(self, scale: int) -> ColumnType:
        return _column(connect.decimal(scale), _decimal_of(scale))

    def decimal_as_integer(self, schema: Schema) -> ColumnType:
        return _column(schema, _integer_of(32 if schema.type is SchemaType.INT32 else 64))

    def decimal_as_real(self) -> ColumnType:
        return _column(connect.FLOAT64, _real_of)

    def decimal_as_text(self) -> ColumnType:
        return ColumnType(connect.STRING, _text_of, True, text_of)

    def date(self) -> ColumnType:
        odd = self.odd_date

        def value_of(value: Any) -> object:
            if value.__class__ is str and len(value) == 10 and value[7] == "-":
                try:
                    return date.fromisoformat(value)
                except ValueError:
                    pass  # it is none
            return odd(value)

        return _column(connect.DATE, value_of)

    def time_of_day(self) -> ColumnType:
        return _column(connect.TIME, self.time_of)

    def timestamp(self) -> ColumnType:
        convert, zone = self._timestamp_of(), self.zone

        def value_of(value: Any) -> object:
            if value.__class__ is str and value[7:8] == "-" and value[10:11] == " " and value[19:20] in ("", "."):
                try:
                    return _parse(value + _UTC) if zone is UTC else convert(_parse(value))
                except ValueError:
                    pass  # a rarer form, which takes longer to parse
            return convert(value)

        return _column(connect.TIMESTAMP, value_of)

    def binary(self) -> ColumnType:
        return ColumnType(connect.BYTES, _bytes_of)

    def text(self) -> ColumnType:
        return ColumnType(connect.STRING, _text_of, True, text_of)

    def other(self) -> ColumnType:
        return ColumnType(connect.STRING, text_of)

    def odd_date(self, value: Any) -> object:
        day, rest = divmod(self._micros(value, "date"), DAY_US)
        if rest:
            raise refuse_value("the date has a time of day", value)
        if not -(1 << 31) <= day < 1 << 31:
            raise refuse_value("the date has more than 32 bits", value)
        return date_of_day(day)

    def time_of(self, value: Any) -> time:
        if isinstance(value, str):
            try:
                micros, offset = parse_time(value)
            except ValueError:
                pass
            else:
                return time_of_micros(micros - (offset or 0) if micros < DAY_US else micros, value)
        return time_of_micros(self._micros(value, "time"), value)

    def odd_timestamp(self, value: Any) -> object:
        timestamp = timestamp_of_micros(self._micros(value, "timestamp", self.zone))
        if isinstance(timestamp, DistantTimestamp) and not -(1 << 63) <= timestamp.milliseconds < 1 << 63:
            raise refuse_value("the timestamp has more than 64 bits", value)
        return timestamp

    def position(self, value: Any) -> int:
        return self.odd_position(value)

    def odd_position(self, value: Any) -> int:
        try:
            return self._moment(value, self.zone)
        except ValueError:
            return BEGINNING

    def _position_or_null(self, value: Any) -> int | None:
        return None if value is None else clip(self.odd_position(value))

    def _micros(self, value: Any, kind: str, zone: tzinfo = UTC) -> int:
        try:
            return self._moment(value, zone)
        except ValueError as error:
            raise refuse_value(f"the {kind} is none", value) from error

    def _moment(self, value: Any, zone: tzinfo) -> int:
        """Return the moment in microseconds. Raises ValueError."""
        if isinstance(value, int):
            return value * self._unit
        if isinstance(value, float):
            milliseconds = (value - _EPOCH_JULIAN) * 86_400_000
            if not math.isfinite(milliseconds):
                raise ValueError("not a day")
            return math.floor(milliseconds + 0.5) * 1000
        if isinstance(value, str):
            return micros_of_text(value, zone)
        raise ValueError("not a time")


def limit_values(connection: sqlite3.Connection) -> None:
    """Limit the size of values on a connection."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE)


def clip(position: int) -> int:
    """Return the position as an integer of SQLite, which has 64 bits."""
    return min(max(position, -(1 << 63)), (1 << 63) - 1)


def _column(schema: Schema, value_of: ValueOf) -> ColumnType:
    return ColumnType(schema, value_of, True, text_of)


def text_of(value: Any) -> str:
    """Return a value's text; a blob that is not text as SQLite writes it: `X'00FF'`."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"X'{value.hex().upper()}'"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value if isinstance(value, str) else str(value)


def _text_of(value: Any) -> str:
    if value.__class__ is str:
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise refuse_value("the text is not in UTF-8", value.hex()) from error
    return text_of(value)


def _bytes_of(value: Any) -> bytes:
    return value if isinstance(value, bytes) else text_of(value).encode()


def _integer_of(bits: int) -> ValueOf:
    limit = 1 << (bits - 1)

    def value_of(value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            raise _other_class("integer", value)
        if not -limit <= value < limit:
            raise refuse_value(f"the integer has more than {bits} bits", value)
        return value

    return value_of


def _real_of(value: Any) -> float:
    if value.__class__ is float:
        return value
    if isinstance(value, int) and int(float(value)) == value:
        return float(value)
    raise _other_class("real", value)


def _boolean_of(value: Any) -> bool:
    if isinstance(value, int):
        return value != 0
    truth = _BOOLEANS.get(value.lower()) if isinstance(value, str) else None
    if truth is None:
        raise _other_class("boolean", value)
    return truth


def _decimal_of(scale: int) -> ValueOf:
    exact = decimal_of_scale(scale)

    def value_of(value: Any) -> object:
        if not isinstance(value, float):
            return exact(_as_decimal(value))
        try:
            return exact(Decimal(repr(value)))
        except DataException:
            # 0.1 + 0.2 is 0.30000000000000004, which means 0.3.
            return exact(Decimal(format(value, _SIGNIFICANT)))

    return value_of


def _as_decimal(value: Any) -> Decimal:
    if isinstance(value, int) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        return Decimal(value)
    raise _other_class("decimal", value)


def _other_class(kind: str, value: Any) -> DataException:
    return refuse_value(f"the value is no {kind}", value.hex() if isinstance(value, bytes) else value)


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
