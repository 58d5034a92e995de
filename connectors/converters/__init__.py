"""Converters turn a connector's values into the bytes of Kafka records. Finds the one that a configuration names."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import ConfigException
from ringfence.connectors.class_names import class_name
from ringfence.connectors.converters.base import Converter, HeaderConverter
from ringfence.connectors.converters.json_converter import JsonConverter
from ringfence.connectors.converters.registry.avro import AvroConverter
from ringfence.connectors.converters.registry.json_schema import JsonSchemaConverter
from ringfence.connectors.converters.registry.protobuf import ProtobufConverter
from ringfence.connectors.converters.simple import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    SimpleHeaderConverter,
    StringConverter,
    TextOrJsonConverter,
)

__all__ = [
    "AvroConverter",
    "ByteArrayConverter",
    "Converter",
    "HeaderConverter",
    "JsonConverter",
    "JsonSchemaConverter",
    "ProtobufConverter",
    "SimpleHeaderConverter",
    "StringConverter",
    "TextOrJsonConverter",
    "find_converter",
    "find_header_converter",
    "header_converter",
    "key_converter",
    "value_converter",
]

KEY: Final = "key.converter"
VALUE: Final = "value.converter"
HEADER: Final = "header.converter"

_NUMBERS: Final = (
    ShortConverter,
    IntegerConverter,
    LongConverter,
    FloatConverter,
    DoubleConverter,
    BooleanConverter,
)
CONVERTERS: Final[tuple[type[Converter], ...]] = (
    StringConverter,
    JsonConverter,
    TextOrJsonConverter,
    ByteArrayConverter,
    AvroConverter,
    JsonSchemaConverter,
    ProtobufConverter,
    *_NUMBERS,
)
HEADER_CONVERTERS: Final[tuple[type[HeaderConverter], ...]] = (
    SimpleHeaderConverter,
    StringConverter,
    JsonConverter,
    ByteArrayConverter,
    *_NUMBERS,
)


def _names(cls: type) -> tuple[str, ...]:
    return (cls.__name__, class_name(cls), f"connectors.converters.{cls.__name__}", f"{__name__}.{cls.__name__}")


def find_converter(setting: str, name: str) -> type[Converter]:
    """Return the converter with this name or alias. Raises `ConfigException`, which names `setting`."""
    for cls in CONVERTERS:
        if name in _names(cls) or name in cls.aliases:
            return cls
    raise _unknown(setting, name, [cls.__name__ for cls in CONVERTERS])


def find_header_converter(setting: str, name: str) -> type[HeaderConverter]:
    """Return the header converter with this name or alias. Raises `ConfigException`, which names `setting`."""
    for cls in HEADER_CONVERTERS:
        if name in _names(cls) or name in cls.aliases:
            return cls
    raise _unknown(setting, name, [cls.__name__ for cls in HEADER_CONVERTERS])


def _unknown(setting: str, name: str, names: list[str]) -> ConfigException:
    by_name = {each for cls in CONVERTERS for each in (*_names(cls), *cls.aliases)}
    by_name |= {each for cls in HEADER_CONVERTERS for each in (*_names(cls), *cls.aliases)}
    if name in by_name:
        interface = "HeaderConverter" if setting == HEADER else "Converter"
        return ConfigException.invalid(
            setting, name, f"Class {name} does not implement the {interface} interface. Available: {', '.join(names)}"
        )
    return ConfigException.invalid(setting, name, f"Class {name} could not be found. Available: {', '.join(names)}")


def key_converter(config: Mapping[str, str], worker: Mapping[str, str] | None = None) -> Converter:
    """Return the configured key converter of a connector; see `value_converter`."""
    return _converter(KEY, config, worker or {})


def value_converter(config: Mapping[str, str], worker: Mapping[str, str] | None = None) -> Converter:
    """Return the configured value converter of a connector.

    A connector that names a converter also has its settings (`value.converter.*`). Otherwise the worker's converter and
    its settings are used; if the worker names none either, `TextOrJsonConverter`. Raises `ConfigException`.
    """
    return _converter(VALUE, config, worker or {})


def header_converter(config: Mapping[str, str], worker: Mapping[str, str] | None = None) -> HeaderConverter:
    """Return the configured header converter of a connector; `SimpleHeaderConverter` if none is named."""
    source = config if HEADER in config else worker or {}
    cls = find_header_converter(HEADER, source.get(HEADER, SimpleHeaderConverter.__name__).strip())
    converter = cls()
    converter.configure_headers(_below(HEADER, source))
    return converter


def _converter(setting: str, config: Mapping[str, str], worker: Mapping[str, str]) -> Converter:
    source = config if setting in config else worker
    converter = find_converter(setting, source.get(setting, TextOrJsonConverter.__name__).strip())()
    converter.configure(_below(setting, source), is_key=setting == KEY)
    return converter


def _below(setting: str, config: Mapping[str, str]) -> dict[str, str]:
    prefix = setting + "."
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
