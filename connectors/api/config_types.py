"""The types of settings, and the errors of their values."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

CHOICE_NOTES: Final = "choice_notes"
GUARANTEE: Final = "guarantee"
"""A field that we add to Kafka Connect's validation answer: help texts, by setting and recommended value."""
SELECTS: Final = "selects"
"""Another one: the settings of `CatalogEntry.selects`."""
EXAMINES: Final = "examines"
"""Another one: whether a test of the connection says more than a validation."""
HIDDEN: Final = "[hidden]"
"""What every output shows in place of a secret."""


class ConfigType(StrEnum):
    """The type that the text of a setting is parsed as."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 - the name of a type


class Importance(StrEnum):
    """How likely a user is to need the setting."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """How wide the setting's field is in a form."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class ConfigException(Exception):
    """A setting is missing or invalid. The message names the setting and never contains a secret."""

    @classmethod
    def invalid(cls, name: str, value: object, reason: str = "") -> "ConfigException":
        """Return the usual error: `Invalid value abc for configuration tasks.max: <reason>`."""
        return cls(f"Invalid value {value} for configuration {name}{': ' + reason if reason else ''}")


class Password:
    """A secret. `value` holds it; printed or logged, the object shows `[hidden]`."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()
"""The default of a setting that the user must give."""

Validator = Callable[[str, object], None]
"""`validator(name, value)` raises `ConfigException` for an invalid value. It is never called with None."""
