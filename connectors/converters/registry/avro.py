"""Avro, with the schemas that Confluent's AvroConverter makes of Kafka Connect's."""

import io
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from connectors.api import ConnectorError, ParsedConfig, Schema, SchemaType, Struct
from connectors.api.schemas import DATE_NAME, DECIMAL_NAME, STRING, TIME_NAME, TIMESTAMP_NAME
from connectors.api.structs import fit
from connectors.converters.json_encoding import signed_bytes, unscaled_value
from connectors.converters.registry.base import RegistryConverter, Write
from connectors.converters.registry.settings import load
from connectors.values.moments import encoded

_NAMESPACE: Final = "io.confluent.connect.avro"
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRECISION: Final = 64
_TYPES: Final = {
    SchemaType.INT8: ("int", "int8"),
    SchemaType.INT16: ("int", "int16"),
    SchemaType.INT32: ("int", None),
    SchemaType.INT64: ("long", None),
    SchemaType.FLOAT32: ("float", None),
    SchemaType.FLOAT64: ("double", None),
    SchemaType.BOOLEAN: ("boolean", None),
    SchemaType.STRING: ("string", None),
    SchemaType.BYTES: ("bytes", None),
}
_LOGICAL: Final = {
    DECIMAL_NAME: "decimal",
    DATE_NAME: "date",
    TIME_NAME: "time-millis",
    TIMESTAMP_NAME: "timestamp-millis",
}
Json = Any


class AvroConverter(RegistryConverter):
    """Avro's binary form."""

    aliases = ("io.confluent.connect.avro.AvroConverter",)
    kind = "AVRO"

    def prepare(self, settings: ParsedConfig) -> None:
        self._avro = load("fastavro")
        schemas = load("fastavro.schema")
        self._refusals = (schemas.SchemaParseException, schemas.UnknownType)

    def form(self, schema: Schema) -> tuple[str, Write]:
        shown = AvroSchemas().union(schema)
        try:
            parsed = self._avro.parse_schema(json.loads(json.dumps(shown)))
        except self._refusals as error:
            raise ConnectorError(f"Avro has no form for {schema}: {error}.") from error
        encode, schemaless_writer = encoder(schema), self._avro.schemaless_writer

        def write(value: object) -> bytes:
            out = io.BytesIO()
            schemaless_writer(out, parsed, encode(value))
            return out.getvalue()

        return json.dumps(shown, separators=(",", ":")), write


class AvroSchemas:
    """Avro's form of one schema. A record that comes up again is named, not told again."""

    def __init__(self) -> None:
        self._told: dict[str, Schema] = {}
        self._space = ""

    def union(self, schema: Schema) -> Json:
        """The schema, with null where it is optional: first, unless it has a default."""
        shown = self.plain(schema)
        if not schema.optional:
            return shown
        return ["null", shown] if schema.default is None else [shown, "null"]

    def plain(self, schema: Schema) -> Json:
        """The schema of values that are not null."""
        match schema.type:
            case SchemaType.STRUCT:
                return self._record(schema)
            case SchemaType.ARRAY:
                assert schema.values is not None
                shown: dict[str, Json] = {"type": "array", "items": self.union(schema.values)}
            case SchemaType.MAP:
                shown = self._map(schema)
            case _:
                name, connect = _TYPES[schema.type]
                shown = {"type": name}
                if connect is not None:
                    shown["connect.type"] = connect
                if schema.name in _LOGICAL:
                    shown["logicalType"] = _LOGICAL[schema.name]
                if schema.name == DECIMAL_NAME:
                    shown |= {"precision": _PRECISION, "scale": int(schema.parameters.get("scale", "0"))}
        shown |= _metadata(schema)
        return shown if len(shown) > 1 else shown["type"]

    def _record(self, schema: Schema) -> Json:
        space, _, name = (schema.name or f"{_NAMESPACE}.ConnectDefault").rpartition(".")
        _check(name)
        full = f"{space or self._space}.{name}".removeprefix(".")  # a name alone is one of the struct around it
        before = self._told.get(full)
        if before is not None:
            if before.but(optional=False, default=None) == schema.but(optional=False, default=None):
                return full
            raise ConnectorError(f"Two structs within one schema have the name {full} in Avro: give each its own name.")
        self._told[full] = schema
        shown: dict[str, Json] = {"type": "record", "name": name}
        if space:
            shown["namespace"] = space
        around, self._space = self._space, space or self._space
        shown["fields"] = [self._field(field, inner) for field, _, inner in schema.fields]
        self._space = around
        return shown | _metadata(schema)

    def _field(self, name: str, schema: Schema) -> Json:
        _check(name)
        shown: dict[str, Json] = {"name": name, "type": self.union(schema)}
        if schema.doc is not None:
            shown["doc"] = schema.doc
        if schema.default is not None:
            shown["default"] = _default(schema, schema.default)
        elif schema.optional:
            shown["default"] = None
        return shown

    def _map(self, schema: Schema) -> dict[str, Json]:
        assert schema.keys is not None
        assert schema.values is not None
        if schema.keys == STRING:
            return {"type": "map", "values": self.union(schema.values)}
        entry = {
            "type": "record",
            "name": "MapEntry",
            "namespace": _NAMESPACE,
            "fields": [
                {"name": "key", "type": self.union(schema.keys)},
                {"name": "value", "type": self.union(schema.values)},
            ],
            "connect.internal.type": "MapEntry",
        }
        return {"type": "array", "items": entry}


def _check(name: str) -> None:
    if _IDENTIFIER.fullmatch(name) is None:
        raise ConnectorError(f"{name} is no name in Avro: use letters, digits and _; ReplaceField renames fields.")


def _metadata(schema: Schema) -> dict[str, Json]:
    """What a Kafka Connect that reads needs to make the same schema again."""
    shown: dict[str, Json] = {}
    if schema.doc is not None:
        shown["connect.doc"] = schema.doc
    if schema.version is not None:
        shown["connect.version"] = schema.version
    if schema.parameters:
        shown["connect.parameters"] = dict(schema.parameters)
    if schema.default is not None:
        shown["connect.default"] = _default(schema, schema.default)
    if schema.name is not None:
        shown["connect.name"] = schema.name
    return shown


def _default(schema: Schema, value: object) -> Json:
    """A default as JSON; bytes as Latin 1, as Avro says."""
    if value is None:
        return None
    if schema.name == DECIMAL_NAME:
        value = encoder(schema.but(optional=False, default=None))(value)
    elif schema.name in _LOGICAL:
        return encoded(schema.name, value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Struct):
        pairs = zip(value.schema.fields, value.filled(), strict=True)
        return {field.name: _default(field.schema, each) for field, each in pairs}
    if isinstance(value, list):
        assert schema.values is not None
        return [_default(schema.values, each) for each in value]
    if isinstance(value, Mapping):
        assert schema.values is not None
        return {str(key): _default(schema.values, each) for key, each in value.items()}
    return value


def encoder(schema: Schema) -> Callable[[object], Any]:
    """Checks a value of that schema and makes what fastavro takes of it. Raises `ConnectorError`."""
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
                raise ConnectorError(f"A value is null, and {schema} is neither optional nor has it a default.")
        return value if present is None else present(value)

    return encode


def _present(schema: Schema) -> Callable[[Any], Any] | None:
    if schema.name == DECIMAL_NAME:
        scale = int(schema.parameters.get("scale", "0"))
        return lambda value: _decimal(value, scale)
    if schema.name in _LOGICAL:
        return lambda value: encoded(schema.name, value)
    match schema.type:
        case SchemaType.ARRAY:
            assert schema.values is not None
            each = _encoder(schema.values)
            return lambda value: [each(item) for item in value]
        case SchemaType.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            to_key, to_value = _encoder(schema.keys), _encoder(schema.values)
            if schema.keys == STRING:
                return lambda value: {key: to_value(item) for key, item in value.items()}
            return lambda value: [{"key": to_key(key), "value": to_value(item)} for key, item in value.items()]
        case SchemaType.STRUCT:
            encoders = [_encoder(field.schema) for field in schema.fields]
            names = schema.names

            def struct(value: Struct) -> dict[str, Any]:
                if value.schema != schema:
                    raise ConnectorError("Mismatching schema: the struct has another one than the record names.")
                pairs = zip(encoders, value.values, strict=True)
                return dict(zip(names, [encode(item) for encode, item in pairs], strict=True))

            return struct
        case _:
            return None


def _decimal(value: Decimal, scale: int) -> bytes:
    return signed_bytes(unscaled_value(value, scale))
