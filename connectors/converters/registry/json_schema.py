"""JSON with a JSON Schema in the registry, with the schemas of Confluent's JsonSchemaConverter."""

import json
from typing import Any, Final

import orjson

from ringfence.connectors.api import ConfigDef, ConfigType, ParsedConfig, Schema, SchemaType
from ringfence.connectors.api.schemas import DECIMAL_NAME
from ringfence.connectors.converters.json_converter import (
    Encoders,
    decimals_as_numbers,
    describe_metadata,
    with_decimal_format,
)
from ringfence.connectors.converters.registry.registry_converter import RegistryConverter, Write, pairs
from ringfence.connectors.converters.registry.settings import registry_settings

_TYPES: Final = {
    SchemaType.INT8: ("integer", "int8"),
    SchemaType.INT16: ("integer", "int16"),
    SchemaType.INT32: ("integer", "int32"),
    SchemaType.INT64: ("integer", "int64"),
    SchemaType.FLOAT32: ("number", "float32"),
    SchemaType.FLOAT64: ("number", "float64"),
    SchemaType.BOOLEAN: ("boolean", None),
    SchemaType.STRING: ("string", None),
    SchemaType.BYTES: ("string", "bytes"),
}
Json = Any


class JsonSchemaConverter(RegistryConverter):
    """JSON without an envelope. `decimal.format` sets whether decimals are strings (BASE64) or numbers."""

    aliases = ("io.confluent.connect.json.JsonSchemaConverter",)
    kind = "JSON"

    @classmethod
    def config_def(cls) -> ConfigDef:
        return with_decimal_format(registry_settings()).define(
            "object.additional.properties",
            ConfigType.BOOLEAN,
            default=True,
            documentation="Whether structs may have more than the schema's fields; if not, fields can be added later.",
        )

    def prepare(self, settings: ParsedConfig) -> None:
        self._as_numbers = decimals_as_numbers(settings)
        self._encoders = Encoders(decimals_as_numbers=self._as_numbers, defaults=True, entries=True)
        self._open = settings.boolean("object.additional.properties")

    def form(self, schema: Schema) -> tuple[str, Write]:
        encode = self._encoders.encoder(schema)

        def write(value: object) -> bytes:
            return orjson.dumps(encode(value))

        return json.dumps(self._describe(schema), separators=(",", ":")), write

    def _describe(self, schema: Schema, index: int | None = None) -> Json:
        names = ("title", "connect.version", "description", "connect.parameters")
        description = {**self._plain(schema), **describe_metadata(schema, names)}
        if schema.default is not None:
            description["default"] = orjson.loads(orjson.dumps(self._encoders.encoder(schema)(schema.default)))
        place = {} if index is None else {"connect.index": index}
        if schema.optional:
            return {"oneOf": [{"type": "null"}, description], **place}
        return description | place

    def _plain(self, schema: Schema) -> dict[str, Json]:
        match schema.type:
            case SchemaType.ARRAY:
                assert schema.values is not None
                return {"type": "array", "items": self._describe(schema.values)}
            case SchemaType.MAP:
                assert schema.keys is not None
                assert schema.values is not None
                if not pairs(schema):
                    values = self._describe(schema.values)
                    return {"type": "object", "connect.type": "map", "additionalProperties": values}
                entry = {"key": self._describe(schema.keys, 0), "value": self._describe(schema.values, 1)}
                items = {"type": "object", "properties": entry}
                return {"type": "array", "connect.type": "map", "items": items}
            case SchemaType.STRUCT:
                fields = {name: self._describe(inner, place) for name, place, inner in schema.fields}
                required = [name for name, _, inner in schema.fields if not inner.optional and inner.default is None]
                description: dict[str, Json] = {"type": "object", "properties": fields}
                if required:
                    description["required"] = required
                if not self._open:
                    description["additionalProperties"] = False
                return description
            case _:
                name, connect = _TYPES[schema.type]
                if schema.name == DECIMAL_NAME and self._as_numbers:
                    name = "number"
                return {"type": name} if connect is None else {"type": name, "connect.type": connect}
