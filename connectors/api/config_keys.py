"""One setting of a configuration: its definition, its validated value, and a parsed configuration of typed values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ringfence.connectors.api.config_types import (
    NO_DEFAULT,
    ConfigException,
    ConfigType,
    Importance,
    Password,
    Validator,
    Width,
)
from ringfence.connectors.api.value_parsing import to_text


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
