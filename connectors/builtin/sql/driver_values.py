"""What the databases' drivers deliver, and what it becomes: the part that all databases share, and MySQL's and
MariaDB's values, as PyMySQL delivers them.

Rows are read as the driver delivers them, without SQLAlchemy's conversions: these know neither infinite times nor years
beyond 9999, and they round.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, ClassVar, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ConnectorError, Schema
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.sql.time_texts import BEGINNING, DAY_US, micros_of
from ringfence.connectors.sdk.row_records import ValueOf
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value
from ringfence.connectors.sdk.values.decimals import exact_decimal
from ringfence.connectors.sdk.values.moments import timestamp_of_micros

Row = Sequence[Any]


class ColumnType(NamedTuple):
    """How a column is written.

    value_of: converts a value as it was read, None if such values fit the schema; partial: whether the column's type
    has values that the schema cannot hold, for which `value_of` raises `DataException`; text_of: converts a value to
    text, None if values are read as text where all of them become text.
    """

    schema: Schema
    value_of: ValueOf | None = None
    partial: bool = False
    text_of: ValueOf | None = None


class DriverValues(ABC):
    """One kind of database. Its driver delivers the values of Python's types, and others where Python's end."""

    wide: ClassVar[bool] = False
    """Whether every integer may have 64 bits, whatever the name of its type."""

    def __init__(self, handling: Handling, zone: tzinfo) -> None:
        """zone: the time zone of columns without one."""
        self.handling = handling
        self.zone = zone

    @property
    def connect_options(self) -> Mapping[str, object]:
        """Return options of the driver for connections that read rows."""
        return {}

    def prepare(self, connection: Any) -> None:  # noqa: B027 - most drivers need nothing
        """Prepare the driver's connection for reading rows."""

    def fetch(self, connection: Connection, statement: "sa.Select[Any]") -> list[Row]:
        """Return all rows as the driver delivers them. Raises `sqlalchemy.exc.SQLAlchemyError`."""
        with connection.execute(statement) as result:
            cursor: Any = result.cursor
            return list(cursor.fetchall())

    def boolean(self) -> ColumnType:
        return ColumnType(connect.BOOLEAN)

    def integer(self, schema: Schema) -> ColumnType:
        return ColumnType(schema)

    def real(self) -> ColumnType:
        return ColumnType(connect.FLOAT64)

    def big_unsigned_integer(self) -> ColumnType:
        """Return the type of integers with 64 bits and no sign."""
        return ColumnType(connect.decimal(0), Decimal)

    @abstractmethod
    def decimal(self, scale: int) -> ColumnType: ...

    @abstractmethod
    def decimal_as_integer(self, schema: Schema) -> ColumnType: ...

    def decimal_as_real(self) -> ColumnType:
        return ColumnType(connect.FLOAT64, float)

    @abstractmethod
    def decimal_as_text(self) -> ColumnType: ...

    def date(self) -> ColumnType:
        return ColumnType(connect.DATE, lambda value: value if value.__class__ is date else self.odd_date(value), True)

    def time_of_day(self) -> ColumnType:
        return ColumnType(connect.TIME, self.time_of, True)

    def timestamp(self) -> ColumnType:
        return ColumnType(connect.TIMESTAMP, self._timestamp_of(), True)

    def binary(self) -> ColumnType:
        return ColumnType(connect.BYTES)

    def text(self) -> ColumnType:
        return ColumnType(connect.STRING)

    def other(self) -> ColumnType:
        """Return the type of columns whose types Kafka Connect does not have: the database's own text."""
        return ColumnType(connect.STRING)

    @abstractmethod
    def odd_date(self, value: Any) -> object:
        """Convert a date that Python's class does not hold. Raises `DataException`."""

    @abstractmethod
    def time_of(self, value: Any) -> time:
        """Convert a time of day. Raises `DataException`."""

    @abstractmethod
    def odd_timestamp(self, value: Any) -> object:
        """Convert a timestamp that Python's class does not hold. Raises `DataException`."""

    @abstractmethod
    def odd_position(self, value: Any) -> int:
        """Do the same to a position: a moment in microseconds, `BEGINNING` or `END`. Raises `ConnectorError`."""

    def _timestamp_of(self) -> ValueOf:
        zone, odd = self.zone, self.odd_timestamp

        def value_of(value: Any) -> object:
            if value.__class__ is not datetime:
                return odd(value)
            inner = value.tzinfo
            if inner is UTC:
                return value
            if inner is None and zone is UTC:
                return value.replace(tzinfo=UTC)
            try:
                return (value if inner else value.replace(tzinfo=zone)).astimezone(UTC)
            except OverflowError:
                return timestamp_of_micros(micros_of(value, zone))

        return value_of

    def position(self, value: Any) -> int:
        """Return the position of a time in the order of its column, in microseconds."""
        return micros_of(value, self.zone) if value.__class__ is datetime else self.odd_position(value)


def decimal_of_scale(scale: int) -> ValueOf:
    """Return a conversion to decimals of one scale, which never rounds. It raises `DataException`."""
    return exact_decimal(scale, refuse_value)


def integer_of_decimal(value: Any) -> int:
    """Convert a decimal to an integer. Raises `DataException` unless it is one."""
    if not value.is_finite() or value != value.to_integral_value():
        raise refuse_value("the decimal is not an integer", value)
    return int(value)


def time_of_micros(micros: int, value: object) -> time:
    """Return a time of day. value: for the message. Raises `DataException`."""
    if not 0 <= micros < DAY_US:
        raise refuse_value("the time is not within one day", value)
    seconds, fraction = divmod(micros, 1_000_000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction)


def number_position(value: Any, column: str) -> int:
    """Return a number that rows are ordered by. Raises `ConnectorError` unless it is an integer."""
    if isinstance(value, int):
        return value
    try:
        number = Decimal(value)
        whole = number.is_finite() and number == number.to_integral_value()
    except (ArithmeticError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ConnectorError(
            f"The column {column}, which rows are ordered by, has a value that is no integer: reading cannot go on "
            "after it. Correct it, or choose another column or mode."
        )
    return int(number)


_MICROSECOND: Final = timedelta(microseconds=1)
_ZERO: Final = "0000-00-00"


class MySqlValues(DriverValues):
    """Dates with zeros, such as `0000-00-00`, are read as text."""

    @property
    def connect_options(self) -> Mapping[str, object]:
        from pymysql.constants import FIELD_TYPE
        from pymysql.converters import conversions

        times = (FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP, FIELD_TYPE.TIME)
        if self.handling is not Handling.TEXT:
            return {}
        return {"conv": {key: convert for key, convert in conversions.items() if key not in times}}

    def decimal(self, scale: int) -> ColumnType:
        return ColumnType(connect.decimal(scale), decimal_of_scale(scale))

    def decimal_as_integer(self, schema: Schema) -> ColumnType:
        return ColumnType(schema, integer_of_decimal)

    def decimal_as_text(self) -> ColumnType:
        return ColumnType(connect.STRING, lambda value: f"{value:f}")

    def other(self) -> ColumnType:
        return ColumnType(connect.STRING, _text)

    def odd_date(self, value: Any) -> object:
        raise refuse_value("the date is none", value)

    def time_of(self, value: Any) -> time:
        if not isinstance(value, timedelta):
            raise refuse_value("the time is none", value)
        return time_of_micros(value // _MICROSECOND, value)

    def odd_timestamp(self, value: Any) -> object:
        raise refuse_value("the timestamp is none", value)

    def odd_position(self, value: Any) -> int:
        text = str(value)
        if text.startswith(_ZERO):
            return BEGINNING
        try:
            return micros_of(datetime.fromisoformat(text), self.zone)
        except ValueError as error:
            raise ConnectorError(
                "A time that rows are ordered by has a month or a day of zero: reading cannot go on after it. Correct "
                "it, or choose another column or mode."
            ) from error


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
