"""The JSON converter, with or without the schema in each message."""

import base64
import math
import re
from collections.abc import Mapping
from typing import Final

import orjson

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    Importance,
    Range,
    Schema,
    SchemaType,
    Struct,
)
from ringfence.connectors.columns import Column
from ringfence.connectors.converters.base import Converter, HeaderConverter, refuse
from ringfence.connectors.converters.json_encoding import (
    Encode,
    EncodeFields,
    Encoders,
    decimals_as_numbers,
    with_decimal_format,
)

_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
_BEYOND: Final = re.compile(rb"(?:[\xf0-\xf4][\x80-\xbf]{3})+")
_ESCAPE: Final = re.compile(rb"\\(?:u00[0-9a-f]{2}|.)")

_Ready = tuple[bytes, Encode, EncodeFields]
"""For a schema: the first bytes of its messages, the encoder of values, and the encoder of lists of a
struct's fields.
"""


class JsonConverter(Converter, HeaderConverter):
    """JSON as Kafka Connect writes it: `{"schema": …, "payload": …}`, or the bare value with `schemas.enable=false`.

    The schema of a value without one is null. Bytes become base64; a mapping whose keys are not all strings becomes a
    list of pairs.
    """

    aliases = ("org.apache.kafka.connect.json.JsonConverter",)

    @classmethod
    def config_def(cls) -> ConfigDef:
        settings = (
            ConfigDef()
            .define(
                "schemas.enable",
                ConfigType.BOOLEAN,
                default=True,
                importance=Importance.HIGH,
                documentation="Write each record as {schema, payload}; false: the bare value.",
            )
            .define(
                "schemas.cache.size",
                ConfigType.INT,
                default=1000,
                validator=Range(0),
                importance=Importance.HIGH,
                documentation="The maximum number of encoded schemas that are cached.",
            )
            .define(
                "schema.content",
                ConfigType.STRING,
                default=None,
                importance=Importance.HIGH,
                documentation="The schema of messages without one, for sinks; not used by sources.",
            )
        )
        return with_decimal_format(settings).define(
            "replace.null.with.default",
            ConfigType.BOOLEAN,
            default=True,
            importance=Importance.LOW,
            documentation="Whether a null is written as its schema's default, if there is one.",
        )

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        settings = self.config_def().parse(config)
        self._envelope = settings.boolean("schemas.enable")
        self._cache_size = settings.integer("schemas.cache.size")
        self.encoders = Encoders(
            decimals_as_numbers=decimals_as_numbers(settings),
            defaults=settings.boolean("replace.null.with.default"),
        )
        self._ready_schemas: dict[Schema, _Ready] = {}
        self._last: Schema | None = None
        self._ready: _Ready = (b"", lambda value: value, lambda fields: fields)

    def configure_headers(self, config: Mapping[str, str]) -> None:
        self.configure(config, is_key=False)

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if schema is None:
            if value is None:
                return None
            if value.__class__ is not Struct:
                plain = self._plain(topic, value)
                return b'{"schema":null,"payload":' + plain + b"}" if self._envelope else plain
            schema = value.schema
        begin, encode, _ = self._ready if schema is self._last else self._of(schema)
        try:
            payload = dumps(encode(value))
        except TypeError as error:
            raise self._error(topic, value, error) from error
        return begin + payload + b"}" if self._envelope else payload

    def from_column(self, column: Column) -> list[bytes | None]:
        schema = column.schema
        if schema is None or not column.structs:
            return super().from_column(column)
        begin, _, encode = self._of(schema)
        if not self._envelope:
            return [dumps(encode(fields)) for fields in column.values]
        return [begin + dumps(encode(fields)) + b"}" for fields in column.values]

    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        return self.from_record(topic, value, schema)

    def _of(self, schema: Schema) -> _Ready:
        ready = self._ready_schemas.get(schema)
        if ready is None:
            if len(self._ready_schemas) >= max(self._cache_size, 1):
                self._ready_schemas.clear()
            begin = b'{"schema":' + dumps(self.schema_json(schema)) + b',"payload":'
            ready = self._ready_schemas[schema] = (begin, self.encoders.encoder(schema), self.encoders.fields(schema))
        self._last, self._ready = schema, ready
        return ready

    def wrapping(self, schema: Schema) -> tuple[bytes, bytes]:
        """Return what comes before and after the JSON of a record's value with this schema."""
        return (self._of(schema)[0], b"}") if self._envelope else (b"", b"")

    def schema_json(self, schema: Schema) -> dict[str, object]:
        """Return the schema in the form of the messages."""
        json_schema: dict[str, object] = {"type": _NAMES.get(schema.type, schema.type.value)}
        if schema.type is SchemaType.ARRAY and schema.values is not None:
            json_schema["items"] = self.schema_json(schema.values)
        if schema.type is SchemaType.MAP and schema.keys is not None and schema.values is not None:
            json_schema |= {"keys": self.schema_json(schema.keys), "values": self.schema_json(schema.values)}
        if schema.type is SchemaType.STRUCT:
            json_schema["fields"] = [{**self.schema_json(inner), "field": name} for name, _, inner in schema.fields]
        json_schema["optional"] = schema.optional
        if schema.name is not None:
            json_schema["name"] = schema.name
        if schema.version is not None:
            json_schema["version"] = schema.version
        if schema.doc is not None:
            json_schema["doc"] = schema.doc
        if schema.parameters:
            json_schema["parameters"] = dict(schema.parameters)
        if schema.default is not None:
            json_schema["default"] = self.encoders.encoder(schema)(schema.default)
        return json_schema

    def _plain(self, topic: str, value: object) -> bytes:
        try:
            out = orjson.dumps(value, _extra_types, _OPTIONS)
            # orjson writes null for NaN and infinities.
            if b"null" in out:
                out = orjson.dumps(_without_gaps(value), _extra_types, _OPTIONS)
        except TypeError:
            try:
                out = orjson.dumps(_without_gaps(value), _extra_types, _OPTIONS)
            except TypeError as error:
                raise self._error(topic, value, error) from error
        return _escape(out) if b"\\u00" in out or not out.isascii() else out

    def _error(self, topic: str, value: object, error: TypeError) -> ConnectorError:
        if "surrogates" in str(error):
            remedy = "it contains bytes that are not valid UTF-8, which JSON cannot represent; use StringConverter"
            return refuse(self, topic, value, f"{remedy} or ByteArrayConverter.")
        return refuse(self, topic, value, f"{error.__cause__ or error}.")


_NAMES: Final = {SchemaType.FLOAT32: "float", SchemaType.FLOAT64: "double"}


def dumps(value: object) -> bytes:
    """Return the JSON of an encoder's result, as Kafka Connect writes it."""
    out = orjson.dumps(value, None, _OPTIONS)
    return _escape(out) if b"\\u00" in out or not out.isascii() else out


def _escape(out: bytes) -> bytes:
    """Return the same JSON with Kafka Connect's escapes."""
    if b"\\u00" in out:
        out = _ESCAPE.sub(_upper, out)
    return out if out.isascii() else _BEYOND.sub(_pairs, out)


def _pairs(match: re.Match[bytes]) -> bytes:
    r"""Escape characters beyond U+FFFF as two each: `\\uD83D\\uDE00`."""
    units = match[0].decode().encode("utf-16-be").hex("|", 2)
    return b"\\u" + units.upper().replace("|", "\\u").encode()


def _upper(escape: re.Match[bytes]) -> bytes:
    r"""Write `\\u001f` as `\\u001F`."""
    sequence = escape[0]
    return b"\\u" + sequence[2:].upper() if sequence.startswith(b"\\u") else sequence


def _extra_types(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise TypeError(f"JSON cannot represent a value of type {type(value).__name__}; deliver a string or a number")


def _without_gaps(value: object) -> object:
    """Replace what JSON lacks, as Kafka Connect does: NaN and infinities, and keys that are not strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _without_gaps(each) for key, each in value.items()}
        return [[_without_gaps(key), _without_gaps(each)] for key, each in value.items()]
    return [_without_gaps(each) for each in value] if isinstance(value, list | tuple) else value
