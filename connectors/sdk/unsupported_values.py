"""The setting for values that the source may hold and Kafka Connect's types may not, such as a decimal that is NaN."""

from enum import StrEnum
from typing import Final

from ringfence.connectors.api import DataException, Importance, ParsedConfig, SettingGroup

UNSUPPORTED_VALUES: Final = "unsupported.value.handling.mode"
_REMEDY: Final = f"Set {UNSUPPORTED_VALUES} to null or text, or correct the value."


class Handling(StrEnum):
    """What becomes of such a value."""

    FAIL = "fail"
    """The row is refused: `errors.tolerance` decides."""
    NULL = "null"
    """The field is null, and optional if its type has such values."""
    TEXT = "text"
    """All columns whose type has such values are strings."""


def define_unsupported_values(group: SettingGroup, default: Handling = Handling.FAIL) -> None:
    """Define the setting."""
    group.choice(
        UNSUPPORTED_VALUES,
        "What becomes of a value that Kafka Connect's type cannot hold, such as NaN in a decimal. fail: the row is "
        "refused, and errors.tolerance decides. null: the field is null. text: every column whose type has such values "
        "is a string, so that all its values are exact.",
        [mode.value for mode in Handling],
        default.value,
        importance=Importance.LOW,
        display_name="Unsupported values",
    )


def handling_of(settings: ParsedConfig) -> Handling:
    """Return the connector's choice."""
    return Handling(settings.string(UNSUPPORTED_VALUES))


def refuse_value(reason: str, value: object, *settings: str, column: str = "") -> DataException:
    """Return the error for a value that Kafka Connect's type cannot hold. settings: others that choose a treatment."""
    return DataException(reason, value=value, column=column, remedy=_REMEDY, settings=(UNSUPPORTED_VALUES, *settings))
