"""What columns are called in records: a format such as Avro does not take every name that a column may have."""

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
    """From a column's name to its field's, by one of the modes above. With an AvroConverter, `none` is `avro`."""
    if mode == NONE and any(config.get(name, "").strip().endswith("AvroConverter") for name in _CONVERTERS):
        mode = AVRO
    if mode == AVRO:
        return _with_underscores
    return _with_codes if mode == AVRO_UNICODE else str


def _with_underscores(name: str) -> str:
    return _DIGIT.sub("_", _OTHER.sub(lambda found: "_" * len(_units(found[0])), name))


def _with_codes(name: str) -> str:
    return _OTHER_OR_UNDERSCORE.sub(lambda found: "".join(map(_code, _units(found[0]))), name)


def _units(char: str) -> memoryview:
    """UTF-16's code units, which is what Java calls characters."""
    return memoryview(char.encode("utf-16")[2:]).cast("H")


def _code(unit: int) -> str:
    """As Debezium writes it: with two zeros in front up to 0xff, and none from 0x100 on."""
    return f"_u00{unit:x}" if unit < 0x100 else f"_u{unit:x}"
