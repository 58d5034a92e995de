"""Converters for text and for bytes."""

import codecs
import json
from collections.abc import Mapping, Sequence

from connectors.api import ConfigDef, ConfigException, ConfigType, Importance
from connectors.converters.base import Converter, HeaderConverter, refuse


class StringConverter(Converter, HeaderConverter):
    """Text as UTF-8 (or `converter.encoding`), anything else as its text; bytes pass as they are.

    Bytes that are not valid UTF-8 travel inside a text as surrogate escapes and come out as the very same bytes.
    Lists and mappings become JSON text.
    """

    aliases = ("org.apache.kafka.connect.storage.StringConverter",)

    _encoding = "utf-8"

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef().define(
            "converter.encoding",
            ConfigType.STRING,
            default="UTF-8",
            importance=Importance.HIGH,
            documentation="The character set in which texts are written to Kafka.",
            validator=_known_encoding,
        )

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        self._encoding = codecs.lookup(self.config_def().parse(config).string("converter.encoding")).name
        self.to_bytes_is_identity = self._encoding == "utf-8"

    def configure_headers(self, config: Mapping[str, str]) -> None:
        self.configure(config, is_key=False)

    def from_record(self, topic: str, value: object) -> bytes | None:
        if value.__class__ is str:
            return value.encode(self._encoding, "surrogateescape")
        if value is None:
            return None
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return self._text(topic, value).encode(self._encoding, "surrogateescape")

    def from_batch(self, topic: str, values: Sequence[object]) -> list[bytes | None]:
        encoding = self._encoding
        try:  # texts only, by far the most frequent case
            return [str.encode(value, encoding, "surrogateescape") for value in values]  # type: ignore[arg-type]
        except TypeError:
            return super().from_batch(topic, values)

    def from_header(self, topic: str, name: str, value: object) -> bytes | None:
        return self.from_record(topic, value)

    def _text(self, topic: str, value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, Mapping | list | tuple):
            try:
                return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            except (TypeError, ValueError) as error:
                raise refuse(self, topic, value, f"{error}.") from error
        return str(value)


class ByteArrayConverter(Converter, HeaderConverter):
    """Bytes as they are. A text is taken as the bytes of its UTF-8 form; anything else is refused."""

    aliases = ("org.apache.kafka.connect.converters.ByteArrayConverter",)

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        self.to_bytes_is_identity = True

    def from_record(self, topic: str, value: object) -> bytes | None:
        if value is None or value.__class__ is bytes:
            return value
        if isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise refuse(self, topic, value, "it takes bytes; use JsonConverter or StringConverter for other values.")

    def from_header(self, topic: str, name: str, value: object) -> bytes | None:
        return self.from_record(topic, value)


class SimpleHeaderConverter(StringConverter):
    """The default for headers: texts and bytes as they are, numbers as digits, lists and mappings as JSON."""

    aliases = ("org.apache.kafka.connect.storage.SimpleHeaderConverter",)

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef()

    def configure_headers(self, config: Mapping[str, str]) -> None:
        """It has no settings."""


def _known_encoding(name: str, value: object) -> None:
    try:
        "".encode(str(value))
    except LookupError:
        raise ConfigException.invalid(name, value, "there is no such character set; UTF-8 is the usual one") from None
