"""The settings for values in files that have more than one right form, or none."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ringfence.connectors.api import (
    Choices,
    ConfigDef,
    ConfigType,
    DataException,
    Importance,
    OneOf,
    ParsedConfig,
    Recommender,
)
from ringfence.connectors.unsupported_values import Handling, handling_of
from ringfence.connectors.values.texts import is_unicode

ENCODING_ERRORS: Final = "encoding.errors"
UNSIGNED: Final = "bigint.unsigned.handling.mode"
INT96: Final = "parquet.int96.unit"

PRECISE: Final = "precise"
LONG: Final = "long"
UNITS: Final = {"microseconds": "us", "nanoseconds": "ns", "milliseconds": "ms"}
"""Arrow's names of the units."""


class BadText(StrEnum):
    """What becomes of bytes that are not text in the file's encoding."""

    FAIL = "fail"
    """The row is refused: `errors.tolerance` decides."""
    REPLACE = "replace"
    """Each is replaced by U+FFFD."""
    ESCAPE = "escape"
    r"""Each is written as `\xff`."""


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """unsigned: `precise` or `long`; int96: the unit of INT96 timestamps, as Arrow names it."""

    bad_text: BadText = BadText.FAIL
    unsupported: Handling = Handling.FAIL
    unsigned: str = PRECISE
    int96: str = "us"


def options_of(settings: ParsedConfig) -> ValueOptions:
    """Return the connector's choices."""
    return ValueOptions(
        BadText(settings.string(ENCODING_ERRORS)),
        handling_of(settings),
        settings.string(UNSIGNED),
        UNITS[settings.string(INT96)],
    )


def define_values(keys: ConfigDef, group: str | None, offer: Callable[..., Recommender]) -> None:
    """Define the settings, but for that of unsupported values. group: of those that they are shown with; offer: returns
    what offers the given values of a setting for Parquet only.
    """
    keys.define(
        ENCODING_ERRORS,
        ConfigType.STRING,
        BadText.FAIL.value,
        validator=OneOf(*(each.value for each in BadText)),
        recommender=Choices(*(each.value for each in BadText)),
        importance=Importance.LOW,
        group=group,
        display_name="Bytes that are not text",
        documentation="What becomes of bytes that are not text in the file's encoding, and of halves of surrogate "
        "pairs in JSON. fail: the row is refused, and errors.tolerance decides. replace: U+FFFD takes their place. "
        "escape: they are written as \\xff.",
    )
    keys.define(
        UNSIGNED,
        ConfigType.STRING,
        PRECISE,
        validator=OneOf(PRECISE, LONG),
        recommender=offer(PRECISE, LONG),
        importance=Importance.LOW,
        group=group,
        display_name="Unsigned 64-bit integers",
        documentation="The type of unsigned 64-bit integers in Parquet. precise: Decimal. long: int64, which does not "
        "hold those from 9223372036854775808 on.",
    )
    keys.define(
        INT96,
        ConfigType.STRING,
        "microseconds",
        validator=OneOf(*UNITS),
        recommender=offer(*UNITS),
        importance=Importance.LOW,
        group=group,
        display_name="Unit of INT96 timestamps",
        documentation="The unit of Parquet's old timestamps, INT96. Finer digits are cut off. Nanoseconds reach from "
        "1677 to 2262, microseconds a thousand times as far. A row with a timestamp beyond is refused.",
    )


def repair_text(text: str, bad_text: BadText) -> str:
    """Return a text that was decoded with `surrogateescape`, as the setting says. Raises `DataException`."""
    if bad_text is BadText.FAIL:
        raise DataException(
            "the text contains bytes that are not in its encoding, or half of a surrogate pair",
            value=repair_text(text, BadText.ESCAPE),
            remedy=f"Set the right encoding, or {ENCODING_ERRORS} to {BadText.REPLACE} or {BadText.ESCAPE}",
            settings=(ENCODING_ERRORS,),
        )
    return "".join(_repair(each, bad_text) if "\ud800" <= each <= "\udfff" else each for each in text)


def _repair(surrogate: str, bad_text: BadText) -> str:
    if bad_text is BadText.REPLACE:
        return "\ufffd"
    number = ord(surrogate)
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else f"\\u{number:04x}"


def repair_texts(value: Any, bad_text: BadText) -> Any:
    """Return a value of lists, dictionaries and texts with each text repaired. Raises `DataException`."""
    if isinstance(value, str):
        return value if is_unicode(value) else repair_text(value, bad_text)
    if isinstance(value, list):
        return [repair_texts(each, bad_text) for each in value]
    if isinstance(value, dict):
        return {repair_texts(key, bad_text): repair_texts(each, bad_text) for key, each in value.items()}
    return value
