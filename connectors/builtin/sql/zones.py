"""Converts times of columns with and without a time zone to and from the JDBC source connector's offsets."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ringfence.connectors.api import ConfigException
from ringfence.connectors.values.moments import micros

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def load_zone(name: str) -> tzinfo:
    """Return the time zone. Raises ValueError for an unknown name."""
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"no time zone {name!r}") from error


def to_offset(moment: datetime, zone: tzinfo) -> dict[str, object]:
    """Return `{"timestamp": milliseconds, "timestamp_nanos": nanoseconds within the second}`. zone: that of a naive
    time.
    """
    since = micros(moment if moment.tzinfo else moment.replace(tzinfo=zone))
    return {"timestamp": since // 1000, "timestamp_nanos": since % 1_000_000 * 1000}


def of_offset(milliseconds: int, nanos: int, zone: tzinfo, *, naive: bool) -> datetime:
    """Return the time of an offset. naive: for a column without a time zone."""
    seconds = milliseconds // 1000
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    return moment.astimezone(zone).replace(tzinfo=None) if naive else moment


def to_column(moment: datetime, zone: tzinfo, *, naive: bool) -> datetime:
    """Convert an aware time to the form of a column. naive: for a column without a time zone."""
    return moment.astimezone(zone).replace(tzinfo=None) if naive else moment


def check_zone(name: str, value: object) -> None:
    """The name of a time zone."""
    try:
        load_zone(str(value))
    except ValueError as error:
        raise ConfigException.invalid(name, value, "Not a time zone, such as UTC or Europe/Berlin") from error
