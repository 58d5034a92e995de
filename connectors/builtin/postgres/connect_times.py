"""Dates and times as Kafka Connect's logical types (`time.precision.mode=connect`), with millisecond precision."""

from datetime import date, datetime, time
from typing import Final

from ringfence.connectors.api import DistantDate, DistantTimestamp, EndOfDay
from ringfence.connectors.api.schemas import DATE, TIME, TIMESTAMP
from ringfence.connectors.builtin.postgres import text_values
from ringfence.connectors.values.moments import date_of_day, timestamp_of_millis, to_time

__all__ = ["DATE", "MIDNIGHT", "TIME", "TIMESTAMP", "read_date", "read_time", "read_timestamp"]

MIDNIGHT: Final = time()


def read_date(raw: bytes) -> date | DistantDate:
    return date_of_day(text_values.day_of(raw))


def read_timestamp(raw: bytes) -> datetime | DistantTimestamp:
    return timestamp_of_millis(text_values.millis_of(raw))


def read_time(raw: bytes) -> time | EndOfDay:
    if raw.startswith(b"24:"):
        return EndOfDay()
    return to_time(text_values.time_millis(raw))
