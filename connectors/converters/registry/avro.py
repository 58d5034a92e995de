"""Avro, with the schemas of Confluent's AvroConverter."""

import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ringfence.connectors.api import ConnectorError, ParsedConfig, Schema, SchemaType, Struct
from ringfence.connectors.api.schemas import DECIMAL_NAME
from ringfence.connectors.api.structs import fit
from ringfence.connectors.converters.json_encoding import to_signed_bytes, to_unscaled
from ringfence.connectors.converters.registry.avro_schemas import LOGICAL, avro_schema, for_writing
from ringfence.connectors.converters.registry.confluent_client import load
from ringfence.connectors.converters.registry.registry_converter import RegistryConverter, Write, pairs
from ringfence.connectors.converters.registry.struct_schemas import is_same_struct
from ringfence.connectors.sdk.values.moments import encode


class AvroConverter(RegistryConverter):
    """Writes Avro's binary form."""

    aliases = ("io.confluent.connect.avro.AvroConverter",)
    kind = "AVRO"

    def prepare(self, settings: ParsedConfig) -> None:
        self._avro = load("fastavro")
        schemas = load("fastavro.schema")
        self._refusals = (schemas.SchemaParseException, schemas.UnknownType)

    def form(self, schema: Schema) -> tuple[str, Write]:
        avro = avro_schema(schema)
        try:
            prepared_schema = self._avro.parse_schema(for_writing(avro))
        except self._refusals as error:
            raise ConnectorError(f"Avro cannot represent {schema}: {error}.") from error
        encode, schemaless_writer = encoder(schema), self._avro.schemaless_writer

        def write(value: object) -> bytes:
            out = io.BytesIO()
            schemaless_writer(out, prepared_schema, encode(value))
            return out.getvalue()

        return json.dumps(avro, separators=(",", ":"), ensure_ascii=False), write


def encoder(schema: Schema) -> Callable[[object], Any]:
    """Return a function that checks a value of the schema and converts it for fastavro. It raises `ConnectorError`."""
    inner = _encoder(schema)

    def encode(value: object) -> Any:
        return inner(value if value.__class__ is Struct else fit(schema, value))

    return encode


def _encoder(schema: Schema) -> Callable[[object], Any]:
    present = _present(schema)

    def encode(value: object) -> Any:
        if value is None:
            value = schema.default
            if value is None:
                if schema.optional:
                    return None
                raise ConnectorError(f"A value is null, but {schema} is neither optional nor has a default.")
        return value if present is None else present(value)

    return encode


def _present(schema: Schema) -> Callable[[Any], Any] | None:
    if schema.name == DECIMAL_NAME:
        scale = int(schema.parameters.get("scale", "0"))
        return lambda value: _decimal(value, scale)
    if schema.name in LOGICAL:
        return lambda value: encode(schema.name, value)
    match schema.type:
        case SchemaType.ARRAY:
            assert schema.values is not None
            each = _encoder(schema.values)
            return lambda value: [each(item) for item in value]
        case SchemaType.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            to_key, to_value = _encoder(schema.keys), _encoder(schema.values)
            if not pairs(schema):
                return lambda value: {key: to_value(item) for key, item in value.items()}
            return lambda value: [{"key": to_key(key), "value": to_value(item)} for key, item in value.items()]
        case SchemaType.STRUCT:
            encoders = [_encoder(field.schema) for field in schema.fields]
            names = schema.names

            def struct(value: Struct) -> dict[str, Any]:
                if not is_same_struct(value.schema, schema):
                    raise ConnectorError("Mismatching schema: the struct's schema is not the record's.")
                pairs = zip(encoders, value.values, strict=True)
                return dict(zip(names, [encode(item) for encode, item in pairs], strict=True))

            return struct
        case _:
            return None


def _decimal(value: Decimal, scale: int) -> bytes:
    return to_signed_bytes(to_unscaled(value, scale))
