"""Converts dates, times and timestamps to and from Kafka Connect's numbers: milliseconds since the epoch, in UTC."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from ringfence.connectors.api import ConnectorError, DistantDate, DistantTimestamp, EndOfDay
from ringfence.connectors.api.schemas import DATE_NAME, TIME_NAME

MILLIS_PER_DAY: Final = 86_400_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = EPOCH.toordinal()
FIRST_DAY: Final = 1 - _EPOCH_DAY
"""0001-01-01, in days since the epoch."""
LAST_DAY: Final = date.max.toordinal() - _EPOCH_DAY
"""9999-12-31."""
_FIRST_MS: Final = FIRST_DAY * MILLIS_PER_DAY
_LAST_MS: Final = (LAST_DAY + 1) * MILLIS_PER_DAY - 1
DAYS_IN_400_YEARS: Final = 146_097
"""The calendar repeats after them."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


def is_moment(value: object) -> bool:
    """Return whether the value is a date, a time of day or a timestamp."""
    return isinstance(value, date | time | DistantDate | DistantTimestamp | EndOfDay)


def millis(value: object) -> int:
    """Return milliseconds since the epoch; for a time, of the day. A naive timestamp is in UTC."""
    if isinstance(value, datetime):
        return ((value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - EPOCH) // _MILLISECOND
    if isinstance(value, date):
        return (value.toordinal() - _EPOCH_DAY) * MILLIS_PER_DAY
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    if isinstance(value, DistantTimestamp):
        return value.milliseconds
    if isinstance(value, DistantDate):
        return value.days * MILLIS_PER_DAY
    if isinstance(value, EndOfDay):
        return MILLIS_PER_DAY
    raise ConnectorError(f"A {type(value).__name__} is not a point in time: pass a date, a time or a datetime.")


def micros(moment: datetime) -> int:
    """Return microseconds since the epoch. A naive timestamp is in UTC."""
    return ((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - EPOCH) // _MICROSECOND


def to_datetime(moment: int) -> datetime:
    """Return the timestamp of milliseconds since the epoch. Raises `ConnectorError` outside the years 1 to 9999."""
    try:
        return EPOCH + timedelta(milliseconds=moment)
    except OverflowError:
        raise ConnectorError(
            f"{moment} ms since the epoch is not in the years 1 to 9999: check the unit of the numbers."
        ) from None


def format_date(day: int) -> str:
    """Return the ISO 8601 date of a day since the epoch, in the proleptic Gregorian calendar: `2024-01-02`, and
    `+12345-01-02` or `-0043-03-15` outside the years 0 to 9999.
    """
    cycles, rest = divmod(day + _EPOCH_DAY - 1, DAYS_IN_400_YEARS)
    at = date.fromordinal(rest + 1)
    year = at.year + 400 * cycles
    sign = "" if 0 <= year <= 9999 else "-" if year < 0 else "+"
    return f"{sign}{abs(year):04d}-{at.month:02d}-{at.day:02d}"


def day_number(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar. year: any; 0 is 1 BC. Raises ValueError."""
    if 1 <= year <= 9999:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    cycles, rest = divmod(year - 1, 400)
    return date(rest + 1, month, day).toordinal() - _EPOCH_DAY + cycles * DAYS_IN_400_YEARS


def date_of_day(day: int) -> date | DistantDate:
    """Return the day, counted from the epoch, as a value of the logical type Date."""
    return date.fromordinal(day + _EPOCH_DAY) if FIRST_DAY <= day <= LAST_DAY else DistantDate(day)


def timestamp_of_millis(milliseconds: int) -> datetime | DistantTimestamp:
    """Return the moment, counted from the epoch, as a value of the logical type Timestamp."""
    if _FIRST_MS <= milliseconds <= _LAST_MS:
        return EPOCH + timedelta(milliseconds=milliseconds)
    return DistantTimestamp(milliseconds)


def timestamp_of_micros(microseconds: int) -> datetime | DistantTimestamp:
    """Do the same. The time of a distant one is rounded down to milliseconds."""
    milliseconds = microseconds // 1000
    if _FIRST_MS <= milliseconds <= _LAST_MS:
        return EPOCH + timedelta(microseconds=microseconds)
    return DistantTimestamp(milliseconds)


def time_of_day(milliseconds: int) -> time | None:
    """Return the time; None for one before midnight or from 24:00 on, which the logical type Time does not hold."""
    return (EPOCH + timedelta(milliseconds=milliseconds)).time() if 0 <= milliseconds < MILLIS_PER_DAY else None


def time_text(milliseconds: int) -> str:
    """Return `HH:MM:SS.mmm`, also for times that are not of one day."""
    seconds, rest = divmod(abs(milliseconds), 1000)
    sign = "-" if milliseconds < 0 else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"


def to_date(moment: int) -> date:
    """Return the day, in UTC."""
    return to_datetime(moment).date()


def to_time(moment: int) -> time:
    """Return the time of day, in UTC."""
    return to_datetime(moment % MILLIS_PER_DAY).time()


def encode(name: str | None, value: object) -> int:
    """Return the number for the logical type with that name: days, or milliseconds."""
    moment = millis(value)
    if name == DATE_NAME:
        return moment // MILLIS_PER_DAY
    return moment % MILLIS_PER_DAY if name == TIME_NAME and not isinstance(value, EndOfDay) else moment
