"""Converts dates, times and timestamps to and from Kafka Connect's numbers: milliseconds since the epoch, in UTC."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from ringfence.connectors.api import ConnectorError, DistantDate, DistantTimestamp, EndOfDay
from ringfence.connectors.api.schemas import DATE_NAME, TIME_NAME

MILLIS_PER_DAY: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


def is_moment(value: object) -> bool:
    """Return whether the value is a date, a time of day or a timestamp."""
    return isinstance(value, date | time | DistantDate | DistantTimestamp | EndOfDay)


def millis(value: object) -> int:
    """Return milliseconds since the epoch; for a time, of the day. A naive timestamp is in UTC."""
    if isinstance(value, datetime):
        return ((value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND
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
    return ((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def to_datetime(moment: int) -> datetime:
    """Return the timestamp of milliseconds since the epoch. Raises `ConnectorError` outside the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(milliseconds=moment)
    except OverflowError:
        raise ConnectorError(
            f"{moment} ms since the epoch is not in the years 1 to 9999: check the unit of the numbers."
        ) from None


_DAYS_IN_400_YEARS: Final = 146_097


def format_date(day: int) -> str:
    """Return the ISO 8601 date of a day since the epoch, in the proleptic Gregorian calendar: `2024-01-02`, and
    `+12345-01-02` or `-0043-03-15` outside the years 0 to 9999.
    """
    cycles, rest = divmod(day + _EPOCH_DAY - 1, _DAYS_IN_400_YEARS)
    at = date.fromordinal(rest + 1)
    year = at.year + 400 * cycles
    sign = "" if 0 <= year <= 9999 else "-" if year < 0 else "+"
    return f"{sign}{abs(year):04d}-{at.month:02d}-{at.day:02d}"


def day_number(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar. year: any; 0 is 1 BC. Raises ValueError."""
    cycles, rest = divmod(year - 1, 400)
    return date(rest + 1, month, day).toordinal() - _EPOCH_DAY + cycles * _DAYS_IN_400_YEARS


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
