"""Dates and times as Kafka Connect's logical types (`time.precision.mode=connect`), with millisecond precision."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.api.schemas import DATE, TIME, TIMESTAMP
from ringfence.connectors.builtin.postgres import text_values

__all__ = ["DATE", "EPOCH", "EPOCH_DAY", "MIDNIGHT", "TIME", "TIMESTAMP", "read_date", "read_time", "read_timestamp"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY: Final = date(1970, 1, 1)
MIDNIGHT: Final = time()
_REMEDY: Final = "which time.precision.mode=connect cannot represent. Use time.precision.mode=adaptive"


def read_date(raw: bytes) -> date:
    try:
        return EPOCH_DAY + timedelta(days=text_values.day_of(raw))
    except OverflowError:
        raise ConnectorError(f"A date is before the year 1 or after 9999, {_REMEDY}") from None


def read_timestamp(raw: bytes) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=text_values.millis_of(raw))
    except OverflowError:
        raise ConnectorError(f"A timestamp is before the year 1 or after 9999, {_REMEDY}") from None


def read_time(raw: bytes) -> time:
    text = raw.decode()
    if text.startswith("24:"):
        raise ConnectorError(f"A time is 24:00, {_REMEDY}")
    return (EPOCH + timedelta(milliseconds=text_values.time_millis(raw))).time()
