"""The JSON converter, with or without the schema in each message.

Encoders make what orjson writes as Kafka Connect's JSON of values with a schema. Each schema's is built once, with a
generated function that turns a struct's values into a dict, as `dataclasses` generates `__init__`: a loop over a
schema's fields costs more than the dict itself. The generated code contains only positions and names of fields, the
names as literals, so that nothing in a schema can become code.
"""

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import orjson

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    Importance,
    OneOf,
    ParsedConfig,
    Range,
    Schema,
    SchemaType,
    Struct,
)
from ringfence.connectors.api.schemas import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME, fit
from ringfence.connectors.columns import Column
from ringfence.connectors.converters.base import Converter, HeaderConverter, refuse
from ringfence.connectors.sdk.values.moments import encode, millis
from ringfence.connectors.sdk.values.texts import number_text

Encode = Callable[[Any], object]


def dict_function(
    names: Sequence[str],
    *,
    present: Mapping[int, Encode],
    nested: Mapping[int, Encode],
    null: Mapping[int, Encode],
) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Return a function `values, in the order of names -> {name: encoded}`. It raises `ValueError` for a wrong number
    of values.

    By position: present encodes what is not None; nested does so with a struct's list of values (its `_values`); null
    is called for None. Other values stay unchanged.
    """
    lines = ["def encode(values):"]
    namespace: dict[str, object] = {}
    if names:
        lines.append(f"    {''.join(f'v{place}, ' for place in range(len(names)))}= values")
    for place in range(len(names)):
        to = ""
        if place in nested:
            namespace[f"n{place}"], to = nested[place], f"v{place} = n{place}(v{place}._values)"
        elif place in present:
            namespace[f"p{place}"], to = present[place], f"v{place} = p{place}(v{place})"
        if place in null:
            namespace[f"z{place}"] = null[place]
            lines.append(f"    if v{place} is None: v{place} = z{place}(None)")
            lines += [f"    else: {to}"] if to else []
        elif to:
            lines.append(f"    if v{place} is not None: {to}")
    items = ", ".join(f"{name!r}: v{place}" for place, name in enumerate(names))
    lines.append(f"    return {{{items}}}")
    exec("\n".join(lines), namespace)  # noqa: S102 - places, and literals of names
    encode: Callable[[Sequence[Any]], dict[str, Any]] = namespace["encode"]  # type: ignore[assignment] # the def above
    return encode


EncodeFields = Callable[[list[Any]], object]
_MOMENTS: Final = (DATE_NAME, TIME_NAME, TIMESTAMP_NAME)
_DECIMAL_FORMAT: Final = "decimal.format"


def with_decimal_format(settings: ConfigDef) -> ConfigDef:
    """Add the setting `decimal.format` to a definition."""
    return settings.define(
        _DECIMAL_FORMAT,
        ConfigType.STRING,
        default="BASE64",
        validator=OneOf("BASE64", "NUMERIC", ignore_case=True),
        importance=Importance.LOW,
        documentation="How decimals are written: BASE64 of their unscaled bytes, or NUMERIC.",
    )


def decimals_as_numbers(settings: ParsedConfig) -> bool:
    """Return whether `decimal.format` is NUMERIC."""
    return settings.string(_DECIMAL_FORMAT).upper() == "NUMERIC"


class Encoders:
    """decimals_as_numbers: `decimal.format`. defaults: `replace.null.with.default`.

    entries: whether maps with keys that are not strings, or may be null, become lists of objects with `key` and
    `value`; otherwise maps whose keys are not strings become lists of pairs.
    """

    def __init__(self, *, decimals_as_numbers: bool, defaults: bool, entries: bool = False) -> None:
        self._decimals_as_numbers = decimals_as_numbers
        self._defaults = defaults
        self._entries = entries

    @property
    def settings(self) -> tuple[bool, bool, bool]:
        """The settings: encoders with equal settings encode alike."""
        return self._decimals_as_numbers, self._defaults, self._entries

    def encoder(self, schema: Schema) -> Encode:
        """Return an encoder that checks and encodes a value of this schema. It raises `ConnectorError`."""
        encode = self.present(schema)

        def top(value: object) -> object:
            if value is None:
                return self._null(schema, encode, "value")
            if value.__class__ is Struct:
                if value.schema is not schema and value.schema != schema:
                    raise ConnectorError("Mismatching schema: the struct's schema is not the record's.")
            else:
                value = fit(schema, value)
            return value if encode is None else encode(value)

        return top

    def fields(self, schema: Schema) -> EncodeFields:
        """Return an encoder of structs of this schema, given as lists of valid field values."""
        nested = {
            field.place: self.fields(field.schema)
            for field in schema.fields
            if field.schema.type is SchemaType.STRUCT and field.schema.name not in (DECIMAL_NAME, *_MOMENTS)
        }
        encoders = {field.place: self.present(field.schema) for field in schema.fields if field.place not in nested}
        # Nullable values without a default stay unchanged.
        null = {
            field.place: self._inner(field.schema, f"field {field.name}")
            for field in schema.fields
            if not field.schema.optional or field.schema.default is not None
        }
        present = {place: to for place, to in encoders.items() if to is not None}
        return dict_function(schema.names, present=present, nested=nested, null=null)

    def null(self, schema: Schema) -> object:
        """Return what null becomes: the encoded default, or None. Raises `ConnectorError`."""
        return self._null(schema, self.present(schema), "value")

    def _null(self, schema: Schema, encode: Encode | None, what: str) -> object:
        if schema.default is not None and self._defaults:
            return schema.default if encode is None else encode(schema.default)
        if schema.optional:
            return None
        raise ConnectorError(
            f"Conversion error: null {what} for a schema that is required and has no default value ({schema})."
        )

    def present(self, schema: Schema) -> Encode | None:
        """Return the encoder of values that are not null; None if orjson writes them unchanged."""
        if schema.name == DECIMAL_NAME:
            return self._decimal(schema)
        if schema.name in _MOMENTS:
            return _moment(schema)
        match schema.type:
            case SchemaType.FLOAT32:
                return _single
            case SchemaType.FLOAT64:
                return _double
            case SchemaType.BYTES:
                return _base64
            case SchemaType.ARRAY:
                return self._array(schema)
            case SchemaType.MAP:
                return self._map(schema)
            case SchemaType.STRUCT:
                return self._struct(schema)
            case _:
                return None

    def _inner(self, schema: Schema | None, what: str) -> Encode:
        if schema is None:
            raise ConnectorError("A list or map without a schema for its values cannot be written with a schema.")
        encode = self.present(schema)

        def inner(value: object) -> object:
            if value is None:
                return self._null(schema, encode, what)
            return value if encode is None else encode(value)

        return inner

    def _array(self, schema: Schema) -> Encode:
        inner = self._inner(schema.values, "element")

        def encode(value: object) -> object:
            assert isinstance(value, list)
            return [inner(each) for each in value]

        return encode

    def _map(self, schema: Schema) -> Encode:
        keys, values = self._inner(schema.keys, "key"), self._inner(schema.values, "value")
        entries = self._entries
        assert schema.keys is not None
        as_object = schema.keys.type is SchemaType.STRING and not (entries and schema.keys.optional)

        def encode(value: object) -> object:
            assert isinstance(value, Mapping)
            if as_object:
                return {keys(key): values(each) for key, each in value.items()}
            if entries:
                return [{"key": keys(key), "value": values(each)} for key, each in value.items()]
            return [[keys(key), values(each)] for key, each in value.items()]

        return encode

    def _struct(self, schema: Schema) -> Encode:
        fields = self.fields(schema)

        def encode(value: object) -> object:
            assert isinstance(value, Struct)
            return fields(value._values)

        return encode

    def _decimal(self, schema: Schema) -> Encode:
        scale = int(schema.parameters.get("scale", "0"))
        as_number = self._decimals_as_numbers

        def encode(value: object) -> object:
            assert isinstance(value, Decimal)
            if as_number:
                if not value.is_finite():
                    raise _not_finite(value)
                return orjson.Fragment(str(value))
            return base64.b64encode(to_signed_bytes(to_unscaled(value, scale))).decode("ascii")

        return encode


def to_unscaled(value: Decimal, scale: int) -> int:
    """Return the unscaled value. Raises `ConnectorError` unless the value has exactly `scale` decimal places."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise _not_finite(value)
    if exponent != -scale:
        raise ConnectorError(f"A decimal has {-exponent} decimal places, but its schema has {scale}: quantize it.")
    number = int("".join(map(str, digits)) or "0")
    return -number if sign else number


def _not_finite(value: Decimal) -> ConnectorError:
    return ConnectorError(f"A decimal is {value}, but only finite numbers can be written as decimals.")


def to_signed_bytes(number: int) -> bytes:
    """Return the two's complement in as few bytes as possible, big-endian."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _moment(schema: Schema) -> Encode:
    name = schema.name
    if name == TIMESTAMP_NAME:
        return millis
    return lambda value: encode(name, value)


def _base64(value: object) -> object:
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode("ascii")


def _double(value: Any) -> object:
    if 1e-3 <= value < 1e7 or -1e7 < value <= -1e-3 or value == 0:
        return value  # Java's text for these is also the shortest one
    return orjson.Fragment(number_text(value)) if math.isfinite(value) else number_text(value)


def _single(value: Any) -> object:
    return orjson.Fragment(number_text(value, 32)) if math.isfinite(value) else number_text(value)


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
        json_schema |= describe_metadata(schema, ("name", "version", "doc", "parameters"))
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


def describe_metadata(schema: Schema, names: Sequence[str]) -> dict[str, Any]:
    """Return what the schema has of a name, a version, a documentation and parameters, under these names."""
    metadata = (schema.name, schema.version, schema.doc, dict(schema.parameters) if schema.parameters else None)
    return {name: each for name, each in zip(names, metadata, strict=True) if each is not None}


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
