"""The definition of a configuration: its settings, and how a given configuration is validated and parsed into typed
values.

One definition parses a task's settings, answers the REST API's `validate`, and draws the form. The model, the error
messages and the JSON are Kafka's (`org.apache.kafka.common.config.ConfigDef`), so forms made for Kafka Connect work.
Validators for `ConfigDef.define(validator=...)` are here, too, and recommenders. Any callable `(name, value)` that
raises can be a validator.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypedDict, TypeVar, Unpack

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


_SENT_FIRST: Final = re.compile(r"(^|\.)(user|username|dbname|hostname|url|client\.id|group\.id|share\.group)$")
"""Clients send these before they know with what they talk: a service that reads lines would take what comes after a
line break for commands, and more can be reached from a worker than by whoever edits a connector.
"""


class ConfigDef:
    """Settings in the order of their definition. `define` returns the definition itself, so calls can be chained.

    >>> definition = ConfigDef().define("topic", ConfigType.STRING).define("batch.size", ConfigType.INT, default=2000)
    >>> definition.parse({"topic": "flights"})
    {'topic': 'flights', 'batch.size': 2000}
    """

    def __init__(self, keys: Iterable[ConfigKey] = ()) -> None:
        self._keys: dict[str, ConfigKey] = {}
        for key in keys:
            self.add(key)

    @property
    def keys(self) -> Mapping[str, ConfigKey]:
        """The settings by name, in the order of their definition."""
        return self._keys

    def define(
        self,
        name: str,
        type: ConfigType,
        default: object = NO_DEFAULT,
        *,
        validator: Validator | None = None,
        importance: Importance = Importance.MEDIUM,
        documentation: str = "",
        group: str | None = None,
        order_in_group: int | None = None,
        width: Width = Width.NONE,
        display_name: str = "",
        dependents: Sequence[str] = (),
        recommender: Recommender | None = None,
    ) -> "ConfigDef":
        """Add a setting. Without a default it is required; with the default None it is optional.

        `order_in_group` counts up by default. Raises `ConfigException` for a default that is not valid.
        """
        if default is not NO_DEFAULT and default is not None:
            default = parse_value(name, type, default)
            if validator is not None:
                validator(name, default)
        if order_in_group is None:
            order_in_group = -1 if group is None else 1 + sum(key.group == group for key in self._keys.values())
        return self.add(
            ConfigKey(
                name=name,
                type=type,
                default=default,
                validator=validator,
                importance=importance,
                documentation=documentation,
                group=group,
                order_in_group=order_in_group,
                width=width,
                display_name=display_name or name,
                dependents=tuple(dependents),
                recommender=recommender,
            )
        )

    def add(self, key: ConfigKey) -> "ConfigDef":
        """Add a key. Raises `ValueError` if its name is already defined."""
        if key.name in self._keys:
            raise ValueError(f"Configuration {key.name} is defined twice.")
        self._keys[key.name] = key
        return self

    def group(self, name: str | None = None) -> "SettingGroup":
        """Return the group of this name, to define settings in it; None: those without a group."""
        return SettingGroup(self, name)

    def groups(self) -> list[str]:
        """The names of the groups, in the order of their first use."""
        return list(dict.fromkeys(key.group for key in self._keys.values() if key.group is not None))

    def parse(self, config: Mapping[str, object]) -> ParsedConfig:
        """Return all settings with their types and defaults, without settings that are not defined.

        Raises `ConfigException` with the first error found.
        """
        values = ParsedConfig()
        for key in self._keys.values():
            value = self._read(key, config)
            if value.errors:
                raise ConfigException(value.errors[0])
            values[key.name] = value.value
        return values

    def validate(self, config: Mapping[str, object]) -> list[ConfigValue]:
        """Return every setting with all its errors, in the order of definition. Never raises for a bad value."""
        values = [self._read(key, config) for key in self._keys.values()]
        parsed_values = {value.name: value.value for value in values}
        for value in values:
            recommender = self._keys[value.name].recommender
            if recommender is not None:
                value.recommended_values = list(recommender.valid_values(value.name, parsed_values))
                value.visible = recommender.visible(value.name, parsed_values)
        return values

    def infos(self) -> list[dict[str, object]]:
        """The keys as Kafka Connect's REST API lists them."""
        return [key.info() for key in self._keys.values()]

    @staticmethod
    def _read(key: ConfigKey, config: Mapping[str, object]) -> ConfigValue:
        value = ConfigValue(key.name)
        if key.name not in config:
            if key.required:
                value.errors.append(f'Missing required configuration "{key.name}" which has no default value.')
            else:
                value.value = key.default
            return value
        value_text = config[key.name]
        if value_text is None:
            value.errors.append(f"Null value can not be supplied as the configuration value for {key.name}.")
            return value
        try:
            value.value = parse_value(key.name, key.type, value_text)
            if key.type is ConfigType.STRING and _SENT_FIRST.search(key.name):
                NoControlCharacters()(key.name, value.value)
            if key.validator is not None:
                key.validator(key.name, value.value)
        except ConfigException as error:
            value.errors.append(str(error))
        return value


class SettingOptions(TypedDict, total=False):
    """What else `ConfigDef.define` accepts."""

    validator: Validator | None
    importance: Importance
    width: Width
    display_name: str
    dependents: Sequence[str]
    recommender: Recommender | None


class SettingGroup:
    """Settings that a form shows together. Each method defines one and returns its name, so that a table of settings
    declares names, types and defaults in one place.

    >>> CONFIG_DEF = ConfigDef()
    >>> _source = CONFIG_DEF.group("Source")
    >>> FILE = _source.text("file", "The file to read.")
    >>> BATCH_SIZE = _source.integer("batch.size", "The maximum number of lines in a batch.", 2000, 1)
    >>> CONFIG_DEF.parse({FILE: "/data/in.txt"})[BATCH_SIZE]
    2000

    Without a default, a setting is required, not empty, and of high importance; with the default None it is optional.
    """

    def __init__(self, definition: ConfigDef, name: str | None) -> None:
        self._definition = definition
        self._name = name

    def _define(
        self, type_: ConfigType, name: str, documentation: str, default: object, options: SettingOptions
    ) -> str:
        if default is NO_DEFAULT:
            options = {"validator": NonEmpty(), "importance": Importance.HIGH, **options}
        self._definition.define(name, type_, default, documentation=documentation, group=self._name, **options)
        return name

    def text(
        self, name: str, documentation: str, default: object = NO_DEFAULT, **options: Unpack[SettingOptions]
    ) -> str:
        return self._define(ConfigType.STRING, name, documentation, default, options)

    def secret(self, name: str, documentation: str, **options: Unpack[SettingOptions]) -> str:
        """Define an optional secret."""
        return self._define(ConfigType.PASSWORD, name, documentation, None, options)

    def flag(self, name: str, documentation: str, default: bool, **options: Unpack[SettingOptions]) -> str:
        return self._define(ConfigType.BOOLEAN, name, documentation, default, options)

    def items(self, name: str, documentation: str, default: object = (), **options: Unpack[SettingOptions]) -> str:
        """Define a list. Unlike others it is empty without a default; `NO_DEFAULT` makes it required."""
        return self._define(ConfigType.LIST, name, documentation, default, {"width": Width.LONG, **options})

    def choice(
        self,
        name: str,
        documentation: str,
        values: Iterable[str],
        default: object = NO_DEFAULT,
        **options: Unpack[SettingOptions],
    ) -> str:
        """Define a setting with one of these values, which forms offer."""
        values = tuple(values)
        choices: SettingOptions = {"validator": OneOf(*values), "recommender": Choices(*values), "width": Width.SHORT}
        return self._define(ConfigType.STRING, name, documentation, default, {**choices, **options})

    def integer(
        self,
        name: str,
        documentation: str,
        default: int | None,
        minimum: int | None = None,
        maximum: int | None = None,
        **options: Unpack[SettingOptions],
    ) -> str:
        """Define a number of 32 bits. Both bounds are valid values."""
        return self._define(ConfigType.INT, name, documentation, default, _with_bounds(minimum, maximum, options))

    def long(
        self,
        name: str,
        documentation: str,
        default: int | None,
        minimum: int | None = None,
        maximum: int | None = None,
        **options: Unpack[SettingOptions],
    ) -> str:
        """Define a number of 64 bits. Both bounds are valid values."""
        return self._define(ConfigType.LONG, name, documentation, default, _with_bounds(minimum, maximum, options))


def _with_bounds(minimum: int | None, maximum: int | None, options: SettingOptions) -> SettingOptions:
    if minimum is not None or maximum is not None:
        options = {"validator": Range(minimum, maximum), **options}
    return {"width": Width.SHORT, **options}


class Range:
    """A number of at least `minimum` and at most `maximum`; both are optional."""

    def __init__(self, minimum: float | None = None, maximum: float | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def __call__(self, name: str, value: object) -> None:
        if not isinstance(value, int | float):
            raise ConfigException.invalid(name, value, "Not a number")
        if self.minimum is not None and not value >= self.minimum:
            raise ConfigException.invalid(name, value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and not value <= self.maximum:
            raise ConfigException.invalid(name, value, f"Value must be no more than {self.maximum}")


class OneOf:
    """One of the given strings. `ignore_case` ignores case, as Kafka does for its enumerations."""

    def __init__(self, *allowed: str, ignore_case: bool = False) -> None:
        self.allowed = allowed
        self.ignore_case = ignore_case

    def __call__(self, name: str, value: object) -> None:
        text = str(value)
        if text in self.allowed:
            return
        if self.ignore_case and text.lower() in {choice.lower() for choice in self.allowed}:
            return
        raise ConfigException.invalid(name, value, f"String must be one of: {', '.join(self.allowed)}")


class NonEmpty:
    """A string or list that is not empty."""

    def __call__(self, name: str, value: object) -> None:
        if isinstance(value, str) and not value:
            raise ConfigException.invalid(name, value, "String must be non-empty")
        if isinstance(value, list) and not value:
            raise ConfigException.invalid(name, "[]", "List must be non-empty")


class NoControlCharacters:
    """A string without ISO control characters, such as line breaks."""

    def __call__(self, name: str, value: object) -> None:
        codes = [ord(char) for char in str(value)]
        bad = sorted({code for code in codes if code < 0x20 or 0x7F <= code <= 0x9F})
        if bad:
            characters = ", ".join(map(str, bad))
            reason = f"String may not contain control sequences but had the following ASCII chars: {characters}"
            raise ConfigException.invalid(name, repr(value)[1:-1], reason)


class UniqueItems:
    """A list without duplicates and empty items."""

    def __call__(self, name: str, value: object) -> None:
        if isinstance(value, list):
            if len(set(value)) < len(value):
                raise ConfigException.invalid(name, ",".join(value), "Duplicate alias provided.")
            if "" in value:
                raise ConfigException.invalid(name, ",".join(value), "List must not contain an empty item")


class AllOf:
    """All of the given validators, in order."""

    def __init__(self, *validators: Validator) -> None:
        self.validators: Sequence[Validator] = validators

    def __call__(self, name: str, value: object) -> None:
        for validator in self.validators:
            validator(name, value)


class Choices:
    """A recommender that always offers the same values, in order."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def valid_values(self, name: str, config: Mapping[str, object]) -> Sequence[object]:
        return self.values

    def visible(self, name: str, config: Mapping[str, object]) -> bool:
        return True


class ShownIf(Choices):
    """A recommender that shows a setting only where another setting has a fitting value.

    A setting that has a value of its own is shown in any case.
    """

    def __init__(self, other: str, fits: Callable[[str], bool], *values: object) -> None:
        """fits: called with the other setting's value as a string, "" if it has none. values: those to offer."""
        super().__init__(*values)
        self._other, self._fits = other, fits

    def visible(self, name: str, config: Mapping[str, object]) -> bool:
        value = config.get(self._other)
        return self._fits("" if value is None else str(value).strip())


class InstalledChoices(Choices):
    """Offers fixed values, and after them the names of the entry points of a group."""

    def __init__(self, group: str, *values: object) -> None:
        super().__init__(*values)
        self._group = group

    def valid_values(self, name: str, config: Mapping[str, object]) -> Sequence[object]:
        from importlib.metadata import entry_points  # slow to import, and needed for few settings only

        return [*self.values, *sorted({point.name for point in entry_points(group=self._group)})]
