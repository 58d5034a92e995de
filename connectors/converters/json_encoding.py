"""Encoders from values with a schema to what orjson writes as Kafka Connect's JSON. Each schema's is built once."""

import base64
import math
from collections.abc import Callable, Mapping
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
    Schema,
    SchemaType,
    Struct,
)
from ringfence.connectors.api.schemas import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from ringfence.connectors.api.structs import fit
from ringfence.connectors.converters.struct_functions import dict_function
from ringfence.connectors.sdk.values.moments import encode, millis
from ringfence.connectors.sdk.values.texts import number_text

Encode = Callable[[object], object]
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
