"""Converts column names to field names: formats such as Avro do not accept all column names."""

import re
from collections.abc import Callable, Mapping
from typing import Final

NONE: Final = "none"
AVRO: Final = "avro"
AVRO_UNICODE: Final = "avro_unicode"

_CONVERTERS: Final = ("key.converter", "value.converter")
_DIGIT: Final = re.compile("^(?=[0-9])")
_OTHER: Final = re.compile("[^A-Za-z0-9_]")
_OTHER_OR_UNDERSCORE: Final = re.compile("^[0-9]|[^A-Za-z0-9]")
Rename = Callable[[str], str]


def renaming(mode: str, config: Mapping[str, str]) -> Rename:
    """Return the function that converts a column's name to its field's name.

    mode: one of the constants above. With an AvroConverter, `none` means `avro`.
    """
    if mode == NONE and any(config.get(name, "").strip().endswith("AvroConverter") for name in _CONVERTERS):
        mode = AVRO
    if mode == AVRO:
        return _with_underscores
    return _with_codes if mode == AVRO_UNICODE else str


def _with_underscores(name: str) -> str:
    return _DIGIT.sub("_", _OTHER.sub(lambda match: "_" * len(_units(match[0])), name))


def _with_codes(name: str) -> str:
    return _OTHER_OR_UNDERSCORE.sub(lambda match: "".join(map(_code, _units(match[0]))), name)


def _units(char: str) -> memoryview:
    """Return the UTF-16 code units: Debezium replaces Java's chars."""
    return memoryview(char.encode("utf-16")[2:]).cast("H")


def _code(unit: int) -> str:
    """Return the code as Debezium writes it: with two leading zeros up to 0xff, with none from 0x100."""
    return f"_u00{unit:x}" if unit < 0x100 else f"_u{unit:x}"
