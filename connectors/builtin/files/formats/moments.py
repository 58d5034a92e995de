"""Makes Kafka Connect's dates and times of numbers, also outside the years 1 to 9999. Pure."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from ringfence.connectors.api import DistantDate, DistantTimestamp

DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = _EPOCH.toordinal()
FIRST_DAY: Final = 1 - _EPOCH_DAY
"""0001-01-01, in days since the epoch."""
LAST_DAY: Final = date.max.toordinal() - _EPOCH_DAY
"""9999-12-31."""


def to_date(day: int) -> date | DistantDate:
    """Return the day, counted from the epoch."""
    return date.fromordinal(day + _EPOCH_DAY) if FIRST_DAY <= day <= LAST_DAY else DistantDate(day)


def to_timestamp(milliseconds: int) -> datetime | DistantTimestamp:
    """Return the time in UTC, counted from the epoch."""
    if FIRST_DAY * DAY_MS <= milliseconds < (LAST_DAY + 1) * DAY_MS:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    return DistantTimestamp(milliseconds)


def to_time(milliseconds: int) -> time | None:
    """Return the time of the day; None for one before midnight or from 24:00 on, which Kafka Connect does not hold."""
    return (_EPOCH + timedelta(milliseconds=milliseconds)).time() if 0 <= milliseconds < DAY_MS else None


def time_text(milliseconds: int) -> str:
    """Return `HH:MM:SS.mmm`, also for times that are not of one day."""
    seconds, rest = divmod(abs(milliseconds), 1000)
    sign = "-" if milliseconds < 0 else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"
