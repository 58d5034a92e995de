"""One setting of a configuration: its definition, its validated value, and a parsed configuration of typed values."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ringfence.connectors.api.config_types import (
    HIDDEN,
    NO_DEFAULT,
    ConfigException,
    ConfigType,
    Importance,
    Password,
    Validator,
    Width,
)

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


class Recommender(Protocol):
    """Recommends values that depend on other settings, and says whether the setting is shown at all."""

    def valid_values(self, name: str, config: Mapping[str, object]) -> Sequence[object]:
        """The values to recommend, given the settings parsed so far."""
        ...

    def visible(self, name: str, config: Mapping[str, object]) -> bool:
        """Whether to show the setting, given the other settings."""
        ...


@dataclass(frozen=True)
class ConfigKey:
    """One setting. `default` is already typed; `NO_DEFAULT` makes the setting required."""

    name: str
    type: ConfigType
    default: object = NO_DEFAULT
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    documentation: str = ""
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT

    def info(self) -> dict[str, object]:
        """The key as Kafka Connect's REST API describes it. Clients use both `order` and `order_in_group`."""
        return {
            "name": self.name,
            "type": self.type.value,
            "required": self.required,
            "default_value": None if self.required else to_text(self.type, self.default),
            "importance": self.importance.value,
            "documentation": self.documentation,
            "group": self.group,
            "order": self.order_in_group,
            "order_in_group": self.order_in_group,
            "width": self.width.value,
            "display_name": self.display_name or self.name,
            "dependents": list(self.dependents),
        }


@dataclass
class ConfigValue:
    """The result for one setting: its typed value (None if it cannot be parsed) and its errors.

    A value that parses but that a validator rejects is kept, so that forms can show it.
    """

    name: str
    value: object = None
    recommended_values: list[object] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True

    def info(self, type_: ConfigType) -> dict[str, object]:
        """The value as Kafka Connect's REST API shows it: strings only, secrets as `[hidden]`."""
        return {
            "name": self.name,
            "value": to_text(type_, self.value),
            "recommended_values": [to_text(type_, value) for value in self.recommended_values],
            "errors": list(self.errors),
            "visible": self.visible,
        }


_T = TypeVar("_T")


class ParsedConfig(dict[str, object]):
    """Typed settings by name. The methods below return a Python type, and raise `ConfigException` for a missing
    setting.
    """

    def _convert_type(self, name: str, kind: type[_T]) -> _T:
        value = self.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            if value is None:
                raise ConfigException(f'Missing configuration "{name}"')
            raise TypeError(f"setting {name} is a {type(value).__name__}, not a {kind.__name__}: see its ConfigDef")
        return value

    def string(self, name: str) -> str:
        return self._convert_type(name, str)

    def integer(self, name: str) -> int:
        return self._convert_type(name, int)

    def number(self, name: str) -> float:
        return self._convert_type(name, float)

    def boolean(self, name: str) -> bool:
        return self._convert_type(name, bool)

    def strings(self, name: str) -> list[str]:
        return [str(item) for item in self._convert_type(name, list)]

    def password(self, name: str) -> str:
        return self._convert_type(name, Password).value
