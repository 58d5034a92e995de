"""Time zones by their names."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ringfence.connectors.api import ConfigException


def load_zone(name: str) -> tzinfo:
    """Return the time zone. Raises ValueError for an unknown name."""
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"no time zone {name!r}") from error


def check_zone(name: str, value: object) -> None:
    """The name of a time zone."""
    try:
        load_zone(str(value))
    except ValueError as error:
        raise ConfigException.invalid(name, value, "Not a time zone, such as UTC or Europe/Berlin") from error
