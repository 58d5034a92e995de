"""Moments of columns with and without a time zone, and as the JDBC source connector keeps them in offsets."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ringfence.connectors.values.moments import micros

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def load_zone(name: str) -> tzinfo:
    """Raises ValueError for a name that no time zone has."""
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"no time zone {name!r}") from error


def to_offset(moment: datetime, zone: tzinfo) -> dict[str, object]:
    """`{"timestamp": milliseconds, "timestamp_nanos": nanoseconds within the second}`. zone: of a naive moment."""
    since = micros(moment if moment.tzinfo else moment.replace(tzinfo=zone))
    return {"timestamp": since // 1000, "timestamp_nanos": since % 1_000_000 * 1000}


def of_offset(milliseconds: int, nanos: int, zone: tzinfo, *, naive: bool) -> datetime:
    """The inverse; `naive`: for a column without a time zone."""
    seconds = milliseconds // 1000
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    return moment.astimezone(zone).replace(tzinfo=None) if naive else moment


def to_column(moment: datetime, zone: tzinfo, *, naive: bool) -> datetime:
    """A moment with a time zone, as a column has it."""
    return moment.astimezone(zone).replace(tzinfo=None) if naive else moment
