"""MySQL's and MariaDB's values, as PyMySQL delivers them."""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any, Final

from ringfence.connectors.api import ConnectorError, Schema
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.sql.driver_values import (
    ColumnType,
    DriverValues,
    decimal_of_scale,
    integer_of_decimal,
    time_of_micros,
)
from ringfence.connectors.builtin.sql.time_texts import BEGINNING, micros_of
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value

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
