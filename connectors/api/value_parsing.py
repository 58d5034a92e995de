"""How the string of a setting becomes a typed value, and a typed value a string."""

import math
import re

from ringfence.connectors.api.config_types import HIDDEN, ConfigException, ConfigType, Password

_INTEGER = re.compile(r"[+-]?[0-9]+")
_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def parse_value(name: str, type_: ConfigType, value: object) -> object:  # noqa: C901 - a case for each type
    """Parse a string, or check a value that already has the type. Raises `ConfigException`."""
    display = HIDDEN if type_ is ConfigType.PASSWORD else value
    text = value.strip() if isinstance(value, str) else None
    match type_:
        case ConfigType.BOOLEAN:
            if isinstance(value, bool):
                return value
            if text is not None and text.lower() in ("true", "false"):
                return text.lower() == "true"
            raise ConfigException.invalid(name, display, "Expected value to be either true or false")
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _whole_number(name, type_, value, text)
        case ConfigType.DOUBLE:
            return _float_number(name, value, text)
        case ConfigType.LIST:
            if isinstance(value, list | tuple):
                return [str(item) for item in value]
            if text is not None:
                return [part.strip() for part in text.split(",")] if text else []
            raise ConfigException.invalid(name, display, "Expected a comma separated list.")
        case ConfigType.PASSWORD:
            if isinstance(value, Password):
                return value
            if text is not None:
                return Password(text)
            raise ConfigException.invalid(name, display, "Expected value to be a string")
        case ConfigType.STRING | ConfigType.CLASS:
            if text is not None:
                return text
            raise ConfigException.invalid(name, display, "Expected value to be a string")


def _whole_number(name: str, type_: ConfigType, value: object, text: str | None) -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif text is not None and len(text) <= 40 and _INTEGER.fullmatch(text):
        number = int(text)
    limit = 1 << (_BITS[type_] - 1)
    if number is None or not -limit <= number < limit:
        raise ConfigException.invalid(name, value, f"Not a number of type {type_.value}")
    return number


def _float_number(name: str, value: object, text: str | None) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if text is not None and "_" not in text:
        try:
            return float(text)
        except ValueError:
            pass
    raise ConfigException.invalid(name, value, "Not a number of type DOUBLE")


def to_text(type_: ConfigType, value: object) -> str | None:
    """Format a typed value as Kafka Connect does; a secret becomes `[hidden]`."""
    if value is None:
        return None
    if type_ is ConfigType.PASSWORD or isinstance(value, Password):
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    return str(value)
