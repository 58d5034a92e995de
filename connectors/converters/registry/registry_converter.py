"""The common base of converters with a registry: each schema is registered once, and each record contains its id."""

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ringfence.connectors.api import ConfigDef, ConnectorError, ParsedConfig, RetriableError, Schema, Struct
from ringfence.connectors.api.schemas import BOOLEAN, BYTES, FLOAT64, INT64, STRING
from ringfence.connectors.converters.base import Converter, refuse
from ringfence.connectors.converters.registry.settings import (
    client,
    load,
    registry_settings,
    subject_of,
    transport_error,
)
from ringfence.connectors.sdk import egress


@functools.lru_cache(1024)
def is_same_struct(actual: Schema, target: Schema) -> bool:
    """Return whether a struct of the schema `actual` is valid for `target`: with the same fields, name, version, doc
    and parameters.

    Optionality and default are ignored: they depend on the field that contains the struct.
    """
    return actual == target or actual.but(optional=target.optional, default=target.default) == target


Write = Callable[[object], bytes]
"""Returns a value as bytes, without the id."""


def pairs(schema: Schema) -> bool:
    """Return whether a map is written as a list of keys with values: maps of Avro and JSON have plain
    strings as keys.
    """
    return schema.keys is not None and (schema.keys.type is not STRING.type or schema.keys.optional)


class RegistryConverter(Converter):
    """Writes a zero byte, the schema's id in four bytes, and the value.

    None is a tombstone, with any schema. A value without a schema is written with the plain schema of its Python type;
    structs need a schema. Raises `RetriableError` if the registry does not respond, and `ConnectorError` if it refuses
    a schema.
    """

    kind: ClassVar[str]
    """The registry's name for the schema format."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return registry_settings()

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        settings = self.config_def().parse(config)
        self._subject = subject_of(settings, is_key)
        self._client = client(settings)
        self._register = settings.boolean("auto.register.schemas")
        self._normalize = settings.boolean("normalize.schemas")
        self._trial = False
        self._ready_schemas: dict[tuple[str, Schema], tuple[bytes, Write]] = {}
        self._last: tuple[str, Schema | None] = ("", None)
        self._ready: tuple[bytes, Write] = (b"", lambda value: b"")
        self.prepare(settings)

    def trial(self) -> None:
        """Make no request to the registry: ids are 0."""
        self._trial = True

    @abstractmethod
    def prepare(self, settings: ParsedConfig) -> None:
        """Apply the format's own settings. Raises `ConfigException`."""

    @abstractmethod
    def form(self, schema: Schema) -> tuple[str, Write]:
        """Return the schema's text for the registry, and the function that writes its values. Raises
        `ConnectorError`.
        """

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            schema = self._infer(topic, value)
        last_topic, last_schema = self._last
        begin, write = self._ready if schema is last_schema and topic == last_topic else self._of(topic, schema)
        try:
            return begin + write(value)
        except (ArithmeticError, TypeError, ValueError) as error:
            # The library's, for a value that its schema, or the format, cannot hold. The text may contain the value.
            remedy = f"it does not fit {schema} as {self.kind} ({type(error).__name__})."
            raise refuse(self, topic, value, remedy) from error

    def schema_text(self, topic: str, value: object, schema: Schema | None = None) -> tuple[str, str] | None:
        if value is None:
            return None
        return self.kind, self.form(self._infer(topic, value) if schema is None else schema)[0]

    def _infer(self, topic: str, value: object) -> Schema:
        if isinstance(value, Struct):
            return value.schema
        for kind, schema in ((bool, BOOLEAN), (int, INT64), (float, FLOAT64), (str, STRING)):
            if isinstance(value, kind):
                return schema
        if isinstance(value, bytes | bytearray | memoryview):
            return BYTES
        raise refuse(self, topic, value, "it needs a schema: add one in the connector, or use JsonConverter.")

    def _of(self, topic: str, schema: Schema) -> tuple[bytes, Write]:
        ready = self._ready_schemas.get((topic, schema))
        if ready is None:
            if len(self._ready_schemas) >= 1000:
                self._ready_schemas.clear()
            text, write = self.form(schema)
            number = self._id(topic, schema, text)
            ready = self._ready_schemas[topic, schema] = (b"\x00" + number.to_bytes(4, "big"), write)
        self._last, self._ready = (topic, schema), ready
        return ready

    def _id(self, topic: str, schema: Schema, text: str) -> int:
        subject = self._subject(topic, schema)
        name = type(self).__name__
        if subject is None:
            raise ConnectorError(
                f"{name} registers schemas by their names, but {schema} for topic {topic} has none: give it one, or "
                "use TopicNameStrategy."
            )
        if self._trial:
            return 0
        registry = load("confluent_kafka.schema_registry")
        unreachable = transport_error()
        no_token = load("confluent_kafka.schema_registry.error").OAuthTokenError
        candidate = registry.Schema(text, self.kind)
        try:
            if self._register:
                return int(self._client.register_schema(subject, candidate, self._normalize))
            return int(self._client.lookup_schema(subject, candidate, self._normalize).schema_id)
        except unreachable as error:
            raise RetriableError(
                f"{name} cannot reach the Schema Registry ({type(error).__name__}): check that it is running at the "
                "configured address."
            ) from error
        except egress.EgressDenied as error:
            raise ConnectorError(f"{name}: {error}.") from error
        except no_token as error:
            raise RetriableError(
                f"{name} gets no token for the Schema Registry: check bearer.auth.* and the issuer."
            ) from error
        except registry.SchemaRegistryError as error:
            if error.http_status_code in (408, 425, 429) or error.http_status_code >= 500:
                raise RetriableError(
                    f"{name}: the Schema Registry is temporarily unable to respond: {_code(error)}"
                ) from None
            raise ConnectorError(f"{name}: {_remedy(error.http_status_code, subject)} ({_code(error)}).") from None


def _code(error: Any) -> str:
    """Return only numbers: the response's text may come from any server, and is shown to the user who set
    its address.
    """
    return f"HTTP {error.http_status_code}, code {error.error_code}"


def _remedy(status: int, subject: str) -> str:
    match status:
        case 401 | 403:
            return f"the Schema Registry refuses these credentials for {subject}: check basic.auth and bearer.auth"
        case 404:
            return f"the Schema Registry does not know this schema under {subject}: register it (auto.register.schemas)"
        case 409:
            return (
                f"the schema is not compatible with earlier ones under {subject}: change it, or the compatibility level"
            )
        case _:
            return f"the Schema Registry refuses the schema under {subject}"
