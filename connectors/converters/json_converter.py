"""The JSON converter, without schemas."""

import base64
import json
from collections.abc import Mapping

from connectors.api import ConfigDef, ConfigException, ConfigType, Importance
from connectors.converters.base import Converter, HeaderConverter, refuse

_SCHEMAS = (
    "records carry no schema here, so JSON is written without the schema envelope; "
    "set schemas.enable=false or leave the setting out"
)


class JsonConverter(Converter, HeaderConverter):
    """Any JSON value as compact UTF-8 JSON; bytes as a base64 text, as Kafka Connect's converter does.

    Unlike there, `schemas.enable` is false where it is left out, and true is refused: records carry no schemas yet.
    """

    aliases = ("org.apache.kafka.connect.json.JsonConverter",)

    def __init__(self) -> None:
        self._encode = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_extra_types
        ).encode

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef().define(
            "schemas.enable",
            ConfigType.BOOLEAN,
            default=False,
            importance=Importance.HIGH,
            documentation="Write each record as {schema, payload}. Not supported yet: leave it out or say false.",
            validator=_no_schemas,
        )

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        self.config_def().parse(config)

    def configure_headers(self, config: Mapping[str, str]) -> None:
        self.configure(config, is_key=False)

    def from_record(self, topic: str, value: object) -> bytes | None:
        if value is None:
            return None
        try:
            return self._encode(value).encode()
        except UnicodeEncodeError as error:
            remedy = "it holds bytes that are not valid UTF-8, which JSON cannot carry; use StringConverter"
            raise refuse(self, topic, value, f"{remedy} or ByteArrayConverter.") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise refuse(self, topic, value, f"{error}.") from error

    def from_header(self, topic: str, name: str, value: object) -> bytes | None:
        return self.from_record(topic, value)


def _extra_types(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"JSON has no form for a value of type {type(value).__name__}; hand over a text or a number")


def _no_schemas(name: str, value: object) -> None:
    if value:
        raise ConfigException.invalid(name, "true", _SCHEMAS)
