"""Reads values that a converter with a registry wrote: a zero byte, the schema's id in four bytes, the value."""

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.converters.registry.settings import client, load, registry_settings, transport_error
from ringfence.connectors.sdk import egress
from ringfence.connectors.sdk.avro.bounds import BeyondBounds, Bounds, check_json

_ID_BYTES: Final = 5
_DEEPEST: Final = 20
_MOST_REFERENCES: Final = 100
"""The schemas that a schema may refer to, in all: each is a request."""
_MOST_SCHEMAS: Final = 1000
"""The schemas that one reader requests: any record can name another id."""
_MODULES: Final = (
    "confluent_kafka.schema_registry.confluent.type.decimal_pb2",
    "google.type.date_pb2",
    "google.type.timeofday_pb2",
    "google.protobuf.timestamp_pb2",
)


@dataclass(frozen=True, slots=True)
class ReadValue:
    """kind: AVRO, JSON or PROTOBUF. name: the schema's, "" for none. value: as from Python's JSON, except for bytes."""

    id: int
    kind: str
    name: str
    value: object


def schema_id(data: bytes) -> int | None:
    """Return the schema id in the value; None if the value does not have this form."""
    return int.from_bytes(data[1:_ID_BYTES], "big") if len(data) > _ID_BYTES and data[0] == 0 else None


class SchemaReader:
    """Requests each schema from the registry once: an id never changes its meaning."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """settings: a converter's, without prefix. Makes no request yet. Raises `ConfigException`."""
        self._client = client(registry_settings().parse(settings))
        self._forms: dict[int, _Form | str] = {}

    def read(self, data: bytes) -> ReadValue:
        """Decode a value. Raises `ConnectorError` with a message for users if the schema is not available, or does not
        fit.
        """
        number = schema_id(data)
        if number is None:
            raise ConnectorError("The value does not contain the id of a registry's schema.")
        form = self._forms.get(number)
        if form is None:
            if len(self._forms) >= _MOST_SCHEMAS:
                raise ConnectorError(f"Its schema {number} is not requested: {_MOST_SCHEMAS} others were before it.")
            form = self._forms[number] = self._ask(number)
        if isinstance(form, str):
            raise ConnectorError(form)
        try:
            return ReadValue(number, form.kind, form.name, form.read(data[_ID_BYTES:]))
        except ConnectorError:
            raise
        except BeyondBounds as error:
            raise ConnectorError(f"The value is not decoded with schema {number}: {error}.") from error
        except Exception as error:
            raise ConnectorError(f"The value does not fit schema {number} ({type(error).__name__}).") from error

    def _ask(self, number: int) -> "_Form | str":
        """Return the reader for a schema, or a message why it is not available."""
        registry = load("confluent_kafka.schema_registry")
        unreachable = transport_error()
        no_token = load("confluent_kafka.schema_registry.error").OAuthTokenError
        try:
            registered = self._client.get_schema(number)
            match registered.schema_type:
                case "AVRO":
                    return _Avro(self._client, registered)
                case "JSON":
                    return _Json(registered)
                case _:
                    return _Protobuf(self._client, number)
        except registry.SchemaRegistryError as error:
            return f"The Schema Registry does not return schema {number} (HTTP {error.http_status_code})."
        except unreachable as error:
            return f"The Schema Registry does not respond ({type(error).__name__})."
        except no_token:
            return "No token for the Schema Registry was obtained: check bearer.auth.* and the issuer."
        except egress.EgressDenied as error:
            return f"{error}."
        except ConnectorError as error:
            return f"Schema {number} cannot be read: {error}"
        except Exception as error:  # noqa: BLE001 - the libraries raise anything for a foreign schema
            return f"Schema {number} cannot be read ({type(error).__name__})."


class _Form:
    kind: str
    name: str

    def read(self, data: bytes) -> object:
        raise NotImplementedError


class _Avro(_Form):
    kind = "AVRO"

    def __init__(self, registry: Any, schema: Any) -> None:
        self._avro = load("fastavro")
        types: dict[str, Any] = {}
        self._left = _MOST_REFERENCES
        self._schema = self._parse(registry, schema, types, 0)
        self._bounds = Bounds(self._schema, types)
        self.name = str(self._schema.get("name", "")) if isinstance(self._schema, dict) else ""

    def _parse(self, registry: Any, schema: Any, names: dict[str, Any], depth: int) -> Any:
        self._left -= 1
        if depth > _DEEPEST or not self._left:
            raise ConnectorError("Its references are too many, or nested too deeply.")
        for each in schema.references or ():
            self._parse(registry, registry.get_version(each.subject, each.version).schema, names, depth + 1)
        document = json.loads(schema.schema_str)
        check_json(document)
        return self._avro.parse_schema(document, named_schemas=names)

    def read(self, data: bytes) -> object:
        self._bounds.check(data)
        return self._avro.schemaless_reader(io.BytesIO(data), self._schema)


class _Json(_Form):
    kind = "JSON"

    def __init__(self, schema: Any) -> None:
        loaded = json.loads(schema.schema_str)
        self.name = str(loaded.get("title", "")) if isinstance(loaded, dict) else ""

    def read(self, data: bytes) -> object:
        return json.loads(data)


class _Protobuf(_Form):
    """Reads with the compiled file, which Confluent's registry returns, and others with its API."""

    kind = "PROTOBUF"

    def __init__(self, registry: Any, number: int) -> None:
        self._factory = load("google.protobuf.message_factory")
        self._format = load("google.protobuf.json_format")
        proto, pools = load("google.protobuf.descriptor_pb2"), load("google.protobuf.descriptor_pool")
        for module in _MODULES:
            load(module)
        registry.clear_caches()  # the cache is keyed by id alone, and would return the source again
        registered = registry.get_schema(number, fmt="serialized")
        try:
            compiled = base64.b64decode(registered.schema_str, validate=True)
        except ValueError as error:
            raise ConnectorError(
                "this registry returns Protobuf only as source, without the compiled file (format=serialized)."
            ) from error
        file = proto.FileDescriptorProto.FromString(compiled)
        default_pool, pool = pools.Default(), pools.DescriptorPool()
        for each in file.dependency:
            self._copy(default_pool.FindFileByName(each), pool, proto)
        file.name = file.name or "schema.proto"
        pool.Add(file)
        self._file = pool.FindFileByName(file.name)
        self._names = [each.name for each in file.message_type]
        self.name = ".".join(filter(None, (file.package, self._names[0])))

    def _copy(self, file: Any, pool: Any, proto: Any) -> None:
        for each in file.dependencies:
            self._copy(each, pool, proto)
        copied = proto.FileDescriptorProto()
        file.CopyToProto(copied)
        pool.Add(copied)

    def read(self, data: bytes) -> object:
        path, at = _indexes(data)
        message = self._file.message_types_by_name[self._names[path[0]]]
        for index in path[1:]:
            message = message.nested_types[index]
        content = self._factory.GetMessageClass(message)()
        content.ParseFromString(data[at:])
        return self._format.MessageToDict(content, preserving_proto_field_name=True)


def _indexes(data: bytes) -> tuple[list[int], int]:
    """Return the path of the message in its file, and where the message begins. A single zero means the
    first message.
    """
    count, at = _zigzag(data, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= _DEEPEST:
        raise ConnectorError("The value was not written with a schema registry.")
    path = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        path.append(index)
    return path, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 35:
            raise ConnectorError("The value was not written with a schema registry.")
