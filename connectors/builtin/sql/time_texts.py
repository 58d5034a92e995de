"""Parses the text that databases have for dates, times and timestamps, with years beyond those of Python.

A moment is a number of microseconds since 1970-01-01, in any range.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from ringfence.connectors.sdk.values.moments import (
    DAYS_IN_400_YEARS,
    EPOCH,
    day_number,
    format_date,
    timestamp_of_micros,
)

DAY_US: Final = 86_400_000_000
INFINITE_MS: Final[Mapping[str, int]] = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
"""What PostgreSQL's JDBC driver delivers for infinite timestamps, in milliseconds."""
BEGINNING: Final = INFINITE_MS["-infinity"] * 1000
"""The position, in microseconds, of what is before all times: `-infinity`, and values that are no times."""
END: Final = INFINITE_MS["infinity"] * 1000
_CYCLE_US: Final = DAYS_IN_400_YEARS * DAY_US
_MICROSECOND: Final = timedelta(microseconds=1)
_INNER: Final = (day_number(2, 1, 1) * DAY_US, day_number(9999, 1, 1) * DAY_US)
"""The years in which each time zone has a local time."""

_TIME: Final = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,40}))?)?"
_ZONE: Final = r"(?P<zone>Z|[+-]\d\d(?::?\d\d(?::\d\d)?)?)?"
_MOMENT: Final = re.compile(
    rf"(?P<year>-?\d{{4,7}})-(?P<month>\d\d)-(?P<day>\d\d)(?:[ T]{_TIME}\s?{_ZONE})?(?P<era> BC)?", re.ASCII
)
_TIME_OF_DAY: Final = re.compile(_TIME + _ZONE, re.ASCII)


class MomentText(NamedTuple):
    """day: since 1970; micros: of the day; offset: from UTC in microseconds, None without a time zone."""

    day: int
    micros: int
    offset: int | None


def parse_moment(text: str) -> MomentText:
    """Parse `2024-01-02`, `2024-01-02 03:04:05.678`, `0044-03-15 00:00:00+00 BC`, `2024-01-02T03:04Z`.

    Raises ValueError for anything else, also for `infinity`.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError("not a date, and not a date with a time")
    year = int(match["year"])
    day = day_number(1 - year if match["era"] else year, int(match["month"]), int(match["day"]))
    return (
        MomentText(day, 0, None) if match["hour"] is None else MomentText(day, _micros(match), _offset(match["zone"]))
    )


def parse_time(text: str) -> tuple[int, int | None]:
    """Parse `03:04`, `03:04:05.678`, `03:04:05+02`. Returns microseconds of the day, and the offset from UTC in
    microseconds or None. 24:00 is a whole day. Raises ValueError.
    """
    match = _TIME_OF_DAY.fullmatch(text)
    if match is None:
        raise ValueError("not a time of day")
    return _micros(match), _offset(match["zone"])


def _micros(match: re.Match[str]) -> int:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    fraction = int((match["fraction"] or "").ljust(6, "0")[:6])
    micros = (hour * 3600 + minute * 60 + second) * 1_000_000 + fraction
    if minute > 59 or second > 59 or micros > DAY_US:
        raise ValueError("not a time of day")
    return micros


def _offset(zone: str | None) -> int | None:
    if zone is None:
        return None
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    micros = (int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])) * 1_000_000
    return -micros if zone[0] == "-" else micros


def micros_of_text(text: str, zone: tzinfo) -> int:
    """Return the moment of a date with or without a time. zone: of a text without one. Raises ValueError."""
    day, micros, offset = parse_moment(text)
    local = day * DAY_US + micros
    return to_utc(local, zone) if offset is None else local - offset


def micros_of(moment: datetime, zone: tzinfo) -> int:
    """Return the moment of a datetime. zone: of one without."""
    if moment.tzinfo is not None:
        return (moment - EPOCH) // _MICROSECOND
    return to_utc((moment.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND, zone)


def to_utc(local: int, zone: tzinfo) -> int:
    """Return the moment of a local time, which is given as if it were in UTC."""
    return local if zone is UTC else local - _difference(_near(local).replace(tzinfo=zone))


def to_local(moment: int, zone: tzinfo) -> int:
    """Do the inverse."""
    return moment if zone is UTC else moment + _difference(_near(moment).astimezone(zone))


def _difference(at: datetime) -> int:
    difference = at.utcoffset()
    assert difference is not None
    return difference // _MICROSECOND


def _near(micros: int) -> datetime:
    """Return the same place of another cycle of the calendar if zones have no rules for this one."""
    first, last = _INNER
    if micros < first:
        micros += -((micros - first) // _CYCLE_US) * _CYCLE_US
    elif micros >= last:
        micros -= ((micros - last) // _CYCLE_US + 1) * _CYCLE_US
    return EPOCH + timedelta(microseconds=micros)


def as_datetime(micros: int) -> datetime | None:
    """Return a moment as a datetime in UTC; None outside the years 1 to 9999."""
    moment = timestamp_of_micros(micros)
    return moment if isinstance(moment, datetime) else None


def text_of_micros(micros: int) -> str:
    """Return a moment as ISO 8601 writes it, in UTC: `2024-01-02 03:04:05.678000`, `+12345-01-02 00:00:00.000000`."""
    day, rest = divmod(micros, DAY_US)
    seconds, fraction = divmod(rest, 1_000_000)
    return f"{format_date(day)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"
