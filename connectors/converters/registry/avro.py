"""Avro, with the schemas of Confluent's AvroConverter."""

import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from ringfence.connectors.api import ConnectorError, ParsedConfig, Schema, SchemaType, Struct
from ringfence.connectors.api.schemas import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME, fit
from ringfence.connectors.converters.json_converter import to_signed_bytes, to_unscaled
from ringfence.connectors.converters.registry.registry_converter import RegistryConverter, Write, is_same_struct, pairs
from ringfence.connectors.converters.registry.settings import load
from ringfence.connectors.sdk.values.moments import encode
from ringfence.connectors.sdk.values.texts import number_text

_NAMESPACE: Final = "io.confluent.connect.avro"
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRECISION: Final = "64"
# Parameters of a schema that was converted from Avro.
_OWN_PRECISION: Final = "connect.decimal.precision"
_DOC: Final = f"{_NAMESPACE}.record.doc"
_FIELD_DOC: Final = f"{_NAMESPACE}.field.doc."
_FIELD_DEFAULT: Final = f"{_NAMESPACE}.field.default"
_TYPES: Final = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
LOGICAL: Final = {
    DECIMAL_NAME: "decimal",
    DATE_NAME: "date",
    TIME_NAME: "time-millis",
    TIMESTAMP_NAME: "timestamp-millis",
}
_WRITING: Final = ("type", "name", "namespace", "fields", "items", "values")
Json = Any


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


def avro_schema(schema: Schema) -> Json:
    """Return the Avro schema, with the order of Confluent's converter. Raises `ConnectorError`."""
    return _Schemas(schema).union(schema)


def for_writing(schema: Json) -> Json:
    """Return the schema without what a writer does not need, since some Avro libraries reject parts of that."""
    if isinstance(schema, list):
        return [for_writing(each) for each in schema]
    if isinstance(schema, dict):
        return {name: for_writing(schema[name]) for name in _WRITING if name in schema}
    return schema


class _Schemas:
    """Converts one whole schema. A record that occurs again is written by its name only."""

    def __init__(self, schema: Schema) -> None:
        self._definitions: dict[str, object] = {}
        self._nameless: dict[Schema, str] = {}
        self._space = ""
        self._repeated = {name for name, count in Counter(_names(schema)).items() if count > 1}

    def union(self, schema: Schema) -> Json:
        """Return the schema; an optional one as a union with null, which comes first unless there is a default."""
        avro = self._plain(schema)
        if not schema.optional:
            return avro
        return ["null", avro] if schema.default is None else [avro, "null"]

    def _plain(self, schema: Schema) -> Json:
        """Return the schema of values that are not null."""
        match schema.type:
            case SchemaType.STRUCT:
                avro = self._struct(schema)
                if isinstance(avro, str):
                    return avro
            case SchemaType.ARRAY:
                assert schema.values is not None
                avro = {"type": "array", "items": self.union(schema.values)}
            case SchemaType.MAP:
                assert schema.values is not None
                if pairs(schema):
                    avro = {"type": "array", "items": self._entry(schema)}
                else:
                    avro = {"type": "map", "values": self.union(schema.values)}
            case _:
                avro = {"type": _TYPES[schema.type]}
        if schema.name == DECIMAL_NAME:
            avro["scale"] = int(schema.parameters.get("scale", "0"))
            avro["precision"] = int(schema.parameters.get(_OWN_PRECISION, _PRECISION))
        avro |= _metadata(schema)
        return avro if len(avro) > 1 else avro["type"]

    def _struct(self, schema: Schema) -> Any:
        same = schema.but(optional=False, default=None)
        name = schema.name
        if name is None:
            number = len(self._nameless) + 1
            name = self._nameless.setdefault(same, "ConnectDefault" if number == 1 else f"ConnectDefault{number}")
            name = f"{_NAMESPACE}.{name}"
        fields = [(field, inner, schema.parameters.get(_FIELD_DOC + field)) for field, _, inner in schema.fields]
        return self._record(name, same, fields, schema.parameters.get(_DOC))

    def _entry(self, schema: Schema) -> Any:
        assert schema.keys is not None
        assert schema.values is not None
        name = f"{_NAMESPACE}.MapEntry" if schema.name is None else schema.name
        fields = [("key", schema.keys, None), ("value", schema.values, None)]
        avro = self._record(name, (schema.keys, schema.values), fields, None)
        if isinstance(avro, dict) and schema.name is not None:
            avro["connect.internal.type"] = "MapEntry"
        return avro

    def _record(
        self, full_name: str, same: object, fields: Sequence[tuple[str, Schema, str | None]], doc: str | None
    ) -> Any:
        """Return a record, or its name if it occurred before. same: equal for occurrences of the same record."""
        space, _, name = full_name.rpartition(".")
        _check(name)
        if not space and name in self._repeated:
            # Only Java's parser would find it again: others resolve a bare name in the enclosing namespace.
            space = self._space
        full = f"{space}.{name}" if space else name
        if full in self._definitions:
            if self._definitions[full] == same:
                return name if space == self._space else full
            raise ConnectorError(
                f"Two structs, or maps with keys that are not strings, have the name {full} in Avro: give each schema "
                "its own."
            )
        self._definitions[full] = same
        avro: dict[str, Json] = {"type": "record", "name": name}
        if space != self._space:
            avro["namespace"] = space
        if doc is not None:
            avro["doc"] = doc
        around, self._space = self._space, space
        avro["fields"] = [self._field(*each) for each in fields]
        self._space = around
        return avro

    def _field(self, name: str, schema: Schema, doc: str | None) -> Json:
        _check(name)
        avro: dict[str, Json] = {"name": name, "type": self.union(schema)}
        if doc is not None:
            avro["doc"] = doc
        if schema.default is not None:
            if _can_be_told(schema, schema.default):
                avro["default"] = _default(schema, schema.default)
        elif schema.optional:
            avro["default"] = None
        return avro


def _names(schema: Schema) -> Iterator[str]:
    """Yield the names of all records in it, as often as they occur."""
    if schema.name is not None and (schema.type is SchemaType.STRUCT or pairs(schema)):
        yield schema.name
    for inner in (*(field.schema for field in schema.fields), schema.keys, schema.values):
        if inner is not None:
            yield from _names(inner)


def _check(name: str) -> None:
    if _IDENTIFIER.fullmatch(name) is None:
        raise ConnectorError(f"{name} is not a name in Avro: use letters, digits and _. ReplaceField renames fields.")


def _metadata(schema: Schema) -> dict[str, Json]:
    """Return what a consuming Kafka Connect needs to build the same schema again, and Avro's logical type."""
    metadata: dict[str, Json] = {}
    if schema.doc is not None:
        metadata["connect.doc"] = schema.doc
    if schema.version is not None:
        metadata["connect.version"] = schema.version
    parameters = {name: value for name, value in schema.parameters.items() if name != _FIELD_DEFAULT}
    if parameters:
        metadata["connect.parameters"] = parameters
    if schema.default is not None and _FIELD_DEFAULT not in schema.parameters:
        metadata["connect.default"] = _default(schema, schema.default)
    if schema.name is not None:
        metadata["connect.name"] = schema.name
    if schema.type in (SchemaType.INT8, SchemaType.INT16):
        metadata["connect.type"] = schema.type.value
    if schema.name in LOGICAL:
        metadata["logicalType"] = LOGICAL[schema.name]
    return metadata | {name: value for name, value in parameters.items() if name.startswith("avro")}


def _can_be_told(schema: Schema, value: object) -> bool:
    """Return whether Avro accepts a default: it does not accept pairs, which are records in Avro, in the
    form of pairs.
    """
    if isinstance(value, Struct):
        return all(
            _can_be_told(field.schema, each)
            for field, each in zip(value.schema.fields, value.values_or_defaults(), strict=True)
        )
    if isinstance(value, list) and schema.values is not None:
        return all(_can_be_told(schema.values, each) for each in value)
    if isinstance(value, Mapping) and schema.values is not None:
        return not value if pairs(schema) else all(_can_be_told(schema.values, each) for each in value.values())
    return True


def _default(schema: Schema, value: object) -> Json:  # noqa: C901 - a case for each kind of value
    """Return a default as JSON; bytes as Latin-1, by Avro's specification."""
    if value is None:
        return None
    if schema.name == DECIMAL_NAME:
        value = to_signed_bytes(to_unscaled(value, int(schema.parameters.get("scale", "0"))))  # type: ignore[arg-type]
    elif schema.name in LOGICAL:
        return encode(schema.name, value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, float) and not math.isfinite(value):
        return number_text(value)
    if isinstance(value, float) and schema.type is SchemaType.FLOAT32:
        return float(number_text(value, 32))  # 1.1, not 1.100000023841858
    if isinstance(value, Struct):
        fields = zip(value.schema.fields, value.values_or_defaults(), strict=True)
        return {field.name: _default(field.schema, each) for field, each in fields}
    if isinstance(value, list):
        assert schema.values is not None
        return [_default(schema.values, each) for each in value]
    if isinstance(value, Mapping):
        assert schema.keys is not None
        assert schema.values is not None
        if pairs(schema):
            return [[_default(schema.keys, key), _default(schema.values, each)] for key, each in value.items()]
        return {key: _default(schema.values, each) for key, each in value.items()}
    return value
