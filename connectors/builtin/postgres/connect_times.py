"""Dates and times as Kafka Connect's logical types (`time.precision.mode=connect`), with millisecond precision."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from ringfence.connectors.api import DistantDate, DistantTimestamp, EndOfDay
from ringfence.connectors.api.schemas import DATE, TIME, TIMESTAMP
from ringfence.connectors.builtin.postgres import text_values

__all__ = ["DATE", "EPOCH", "EPOCH_DAY", "MIDNIGHT", "TIME", "TIMESTAMP", "read_date", "read_time", "read_timestamp"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY: Final = date(1970, 1, 1)
MIDNIGHT: Final = time()


def read_date(raw: bytes) -> date | DistantDate:
    days = text_values.day_of(raw)
    try:
        return EPOCH_DAY + timedelta(days=days)
    except OverflowError:
        return DistantDate(days)


def read_timestamp(raw: bytes) -> datetime | DistantTimestamp:
    milliseconds = text_values.millis_of(raw)
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return DistantTimestamp(milliseconds)


def read_time(raw: bytes) -> time | EndOfDay:
    if raw.startswith(b"24:"):
        return EndOfDay()
    return (EPOCH + timedelta(milliseconds=text_values.time_millis(raw))).time()
