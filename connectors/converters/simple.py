"""Converters for values of one type: strings, bytes, booleans and numbers; and the default, which takes any value."""

import codecs
import json
import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    DistantDate,
    DistantTimestamp,
    EncodedStrings,
    EndOfDay,
    Importance,
    Schema,
    SchemaType,
    Struct,
)
from ringfence.connectors.columns import Column
from ringfence.connectors.converters.base import Converter, HeaderConverter, refuse
from ringfence.connectors.converters.json_converter import JsonConverter
from ringfence.connectors.sdk.values.moments import is_moment, millis, to_datetime
from ringfence.connectors.sdk.values.texts import moment_text, number_text, text

_JAVA: Final = "org.apache.kafka.connect.converters."
_STRUCTURES = (SchemaType.STRUCT, SchemaType.MAP, SchemaType.ARRAY)


class StringConverter(Converter, HeaderConverter):
    """Strings as UTF-8 (or `converter.encoding`), other values as their text; bytes are passed through.

    Bytes that are not valid UTF-8 are surrogate escapes inside a string, and are written as the original bytes. Other
    values have Java's text, as in Kafka Connect; but lists and mappings without a schema become JSON.
    """

    aliases: ClassVar[tuple[str, ...]] = ("org.apache.kafka.connect.storage.StringConverter",)

    _encoding = "utf-8"

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef().define(
            "converter.encoding",
            ConfigType.STRING,
            default="UTF-8",
            importance=Importance.HIGH,
            documentation="The character set in which strings are written to Kafka.",
            validator=_check_encoding,
        )

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        self._encoding = codecs.lookup(self.config_def().parse(config).string("converter.encoding")).name
        self.to_bytes_is_identity = self._encoding == "utf-8"

    def configure_headers(self, config: Mapping[str, str]) -> None:
        self.configure(config, is_key=False)

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if value.__class__ is str:
            return _encode(self, topic, value, self._encoding)
        if value is None:
            return None
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return _encode(self, topic, self._text(topic, value, schema), self._encoding)

    def from_batch(self, topic: str, values: Sequence[object], schema: Schema | None = None) -> list[bytes | None]:
        encoding = self._encoding
        try:  # only strings: by far the most frequent case
            if encoding == "utf-8":  # all at once takes a third of the time
                text = "\n".join(values)  # type: ignore[arg-type]
                if text.count("\n") == len(values) - 1:
                    return [*text.encode(encoding, "surrogateescape").split(b"\n")]
            return [str.encode(value, encoding, "surrogateescape") for value in values]  # type: ignore[arg-type]
        except TypeError:
            return super().from_batch(topic, values, schema)

    def from_column(self, column: Column) -> list[bytes | None]:
        if isinstance(column.values, EncodedStrings) and self._encoding == "utf-8":
            return [*column.values.encoded]
        return super().from_column(column)

    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        return self.from_record(topic, value, schema)

    def _text(self, topic: str, value: object, schema: Schema | None) -> str:
        if schema is None and isinstance(value, Mapping | list | tuple):
            try:
                return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            except (TypeError, ValueError) as error:
                raise refuse(self, topic, value, f"{error}.") from error
        return _java_text(value, schema)


def _encode(converter: object, topic: str, value: str, encoding: str = "utf-8") -> bytes:
    """Return the string's bytes. Raises `ConnectorError` for a character that the character set lacks."""
    try:
        return value.encode(encoding, "surrogateescape")
    except UnicodeEncodeError as error:
        character = f"U+{ord(value[error.start]):04X}"
        remedy = f"{encoding} has no character {character}; correct the string, or send it as bytes."
        raise refuse(converter, topic, value, remedy) from error


def _java_text(value: object, schema: Schema | None) -> str:
    """Return the result of Java's `toString`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value, 32 if schema is not None and schema.type is SchemaType.FLOAT32 else 64)
    if isinstance(value, DistantDate | DistantTimestamp | EndOfDay):
        return moment_text(value)
    if is_moment(value):
        return f"{to_datetime(millis(value)):%a %b %d %H:%M:%S UTC %Y}"
    if isinstance(value, Struct):
        fields = [
            (field, each) for field, each in zip(value.schema.fields, value.values, strict=True) if each is not None
        ]
        return "Struct{" + ",".join(f"{field.name}={_java_text(each, field.schema)}" for field, each in fields) + "}"
    keys, values = (schema.keys, schema.values) if schema is not None else (None, None)
    if isinstance(value, Mapping):
        pairs = [f"{_java_text(key, keys)}={_java_text(each, values)}" for key, each in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_java_text(each, values) for each in value) + "]"
    return "null" if value is None else str(value)


_PASSED: Final = frozenset({bytes, type(None)})


class ByteArrayConverter(Converter, HeaderConverter):
    """Passes bytes through. A string is written as UTF-8; other values are refused."""

    aliases = ("org.apache.kafka.connect.converters.ByteArrayConverter",)

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        self.to_bytes_is_identity = True

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if schema is not None and schema.type is not SchemaType.BYTES and schema.type is not SchemaType.STRING:
            raise refuse(self, topic, value, f"it takes bytes, but the schema is {schema}.")
        if value is None or value.__class__ is bytes:
            return value
        if isinstance(value, str):
            return _encode(self, topic, value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise refuse(self, topic, value, "it takes bytes; use JsonConverter or StringConverter for other values.")

    def from_batch(self, topic: str, values: Sequence[object], schema: Schema | None = None) -> list[bytes | None]:
        if schema is None and _PASSED.issuperset(map(type, values)):
            return list(values)  # type: ignore[arg-type]  # as was checked
        return super().from_batch(topic, values, schema)

    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        return self.from_record(topic, value, schema)


class SimpleHeaderConverter(HeaderConverter):
    """The default for headers: strings unchanged, numbers as digits, times in ISO 8601; lists, mappings and structs
    similar to JSON. Bytes are passed through unless the schema's type is bytes: then they are base64, as in Kafka
    Connect.
    """

    aliases = ("org.apache.kafka.connect.storage.SimpleHeaderConverter",)

    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        if value is None:
            return None
        if schema is None and isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return _encode(self, topic, text(value, schema))


def _check_encoding(name: str, value: object) -> None:
    try:
        "".encode(str(value))
    except LookupError:
        raise ConfigException.invalid(name, value, "unknown character set; UTF-8 is the usual one") from None


class _Number(Converter, HeaderConverter):
    """Numbers of one width. Python has one integer type: without a schema, any value that fits is accepted."""

    form: ClassVar[struct.Struct]
    holds: ClassVar[SchemaType]
    kinds: ClassVar[tuple[type, ...]] = (int,)
    what: ClassVar[str]

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Do nothing: there are no settings."""

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if value is None:
            return None
        if schema is not None and schema.type is not self.holds:
            raise refuse(self, topic, value, f"it takes {self.what}, but the schema is {schema}.")
        if isinstance(value, self.kinds) and not isinstance(value, bool):
            try:
                return self.form.pack(value)
            except (struct.error, OverflowError) as error:
                raise refuse(self, topic, value, f"it takes {self.what}, but the number has more bits.") from error
        raise refuse(self, topic, value, f"it takes {self.what}; use JsonConverter for other values.")

    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        return self.from_record(topic, value, schema)


class ShortConverter(_Number):
    """Integers of 16 bits."""

    aliases = (_JAVA + "ShortConverter",)
    holds = SchemaType.INT16
    form = struct.Struct(">h")
    what = "integers of 16 bits"


class IntegerConverter(_Number):
    """Integers of 32 bits."""

    aliases = (_JAVA + "IntegerConverter",)
    holds = SchemaType.INT32
    form = struct.Struct(">i")
    what = "integers of 32 bits"


class LongConverter(_Number):
    """Integers of 64 bits."""

    aliases = (_JAVA + "LongConverter",)
    holds = SchemaType.INT64
    form = struct.Struct(">q")
    what = "integers of 64 bits"


class FloatConverter(_Number):
    """Floating point numbers of 32 bits."""

    aliases = (_JAVA + "FloatConverter",)
    holds = SchemaType.FLOAT32
    form = struct.Struct(">f")
    kinds = (float, int)
    what = "floating point numbers of 32 bits"


class DoubleConverter(_Number):
    """Floating point numbers of 64 bits."""

    aliases = (_JAVA + "DoubleConverter",)
    holds = SchemaType.FLOAT64
    form = struct.Struct(">d")
    kinds = (float, int)
    what = "floating point numbers of 64 bits"


class BooleanConverter(Converter, HeaderConverter):
    """One byte: 1 for true, 0 for false."""

    aliases = (_JAVA + "BooleanConverter",)

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Do nothing: there are no settings."""

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if schema is not None and schema.type is not SchemaType.BOOLEAN:
            raise refuse(self, topic, value, f"it takes booleans, but the schema is {schema}.")
        if value is None:
            return None
        if isinstance(value, bool):
            return b"\x01" if value else b"\x00"
        raise refuse(self, topic, value, "it takes booleans; use JsonConverter or StringConverter for other values.")

    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        return self.from_record(topic, value, schema)


class TextOrJsonConverter(StringConverter):
    """Strings, bytes and single values as StringConverter writes them; structs, mappings and lists as JSON without a
    schema, so that a row of a database is not `Struct{id=1,…}`.

    A worker or connector that names a converter gets that one, as in Kafka Connect, which has no default.
    """

    aliases: ClassVar[tuple[str, ...]] = ()

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        super().configure(config, is_key)
        self._json = JsonConverter()
        self._json.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key)

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if isinstance(value, Struct | Mapping | list | tuple) or (schema is not None and schema.type in _STRUCTURES):
            return self._json.from_record(topic, value, schema)
        return super().from_record(topic, value, schema)

    def from_batch(self, topic: str, values: Sequence[object], schema: Schema | None = None) -> list[bytes | None]:
        if schema is not None and schema.type in _STRUCTURES:
            return self._json.from_batch(topic, values, schema)
        return super().from_batch(topic, values, schema)
