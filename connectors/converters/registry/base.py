"""What the converters with a registry have in common: each schema is registered once, and each record names its id."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ringfence.connectors import egress
from ringfence.connectors.api import ConfigDef, ConnectorError, ParsedConfig, RetriableError, Schema, Struct
from ringfence.connectors.api.schemas import BOOLEAN, BYTES, FLOAT64, INT64, STRING
from ringfence.connectors.converters.base import Converter, refuse
from ringfence.connectors.converters.registry.confluent_client import load, transport_error
from ringfence.connectors.converters.registry.settings import client, registry_settings, subject_of

Write = Callable[[object], bytes]
"""A value as bytes, without the id."""


def pairs(schema: Schema) -> bool:
    """Whether a map is written as a list of keys with values: the maps of Avro and of JSON know plain strings only."""
    return schema.keys is not None and (schema.keys.type is not STRING.type or schema.keys.optional)


class RegistryConverter(Converter):
    """Writes a zero byte, the schema's id in four bytes, and the value.

    None is a tombstone, whatever its schema. A value without a schema is written with the plain one of its Python type;
    structures need a schema. A registry that does not answer is a `RetriableError`; one that refuses a schema is a
    `ConnectorError`.
    """

    kind: ClassVar[str]
    """The registry's name for the form of the schemas."""

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
        self._known: dict[tuple[str, Schema], tuple[bytes, Write]] = {}
        self._last: tuple[str, Schema | None] = ("", None)
        self._ready: tuple[bytes, Write] = (b"", lambda value: b"")
        self.prepare(settings)

    def trial(self) -> None:
        """The registry is not asked: ids are 0."""
        self._trial = True

    @abstractmethod
    def prepare(self, settings: ParsedConfig) -> None:
        """Take the form's own settings. Raises `ConfigException`."""

    @abstractmethod
    def form(self, schema: Schema) -> tuple[str, Write]:
        """The schema's text for the registry, and what writes its values. Raises `ConnectorError`."""

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            schema = self._infer(topic, value)
        last_topic, last_schema = self._last
        begin, write = self._ready if schema is last_schema and topic == last_topic else self._of(topic, schema)
        return begin + write(value)

    def _infer(self, topic: str, value: object) -> Schema:
        if isinstance(value, Struct):
            return value.schema
        for kind, schema in ((bool, BOOLEAN), (int, INT64), (float, FLOAT64), (str, STRING)):
            if isinstance(value, kind):
                return schema
        if isinstance(value, bytes | bytearray | memoryview):
            return BYTES
        raise refuse(self, topic, value, "it needs a schema: let the connector give one, or use JsonConverter.")

    def _of(self, topic: str, schema: Schema) -> tuple[bytes, Write]:
        ready = self._known.get((topic, schema))
        if ready is None:
            if len(self._known) >= 1000:
                self._known.clear()
            text, write = self.form(schema)
            number = self._id(topic, schema, text)
            ready = self._known[topic, schema] = (b"\x00" + number.to_bytes(4, "big"), write)
        self._last, self._ready = (topic, schema), ready
        return ready

    def _id(self, topic: str, schema: Schema, text: str) -> int:
        subject = self._subject(topic, schema)
        name = type(self).__name__
        if subject is None:
            raise ConnectorError(
                f"{name} is to register schemas by their names, and {schema} for topic {topic} has none: give it one, "
                "or use TopicNameStrategy."
            )
        if self._trial:
            return 0
        registry = load("confluent_kafka.schema_registry")
        unreachable = transport_error()
        no_token = load("confluent_kafka.schema_registry.error").OAuthTokenError
        wanted = registry.Schema(text, self.kind)
        try:
            if self._register:
                return int(self._client.register_schema(subject, wanted, self._normalize))
            return int(self._client.lookup_schema(subject, wanted, self._normalize).schema_id)
        except unreachable as error:
            raise RetriableError(
                f"{name} cannot reach the Schema Registry ({type(error).__name__}): see that it runs at the address."
            ) from error
        except egress.Refused as error:
            raise ConnectorError(f"{name}: {error}.") from error
        except no_token as error:
            raise RetriableError(
                f"{name} gets no token for the Schema Registry: look at bearer.auth.* and at the issuer."
            ) from error
        except registry.SchemaRegistryError as error:
            if error.http_status_code in (408, 425, 429) or error.http_status_code >= 500:
                raise RetriableError(
                    f"{name}: the Schema Registry is not able to answer just now: {_code(error)}"
                ) from None
            raise ConnectorError(f"{name}: {_remedy(error.http_status_code, subject)} ({_code(error)}).") from None


def _code(error: Any) -> str:
    """Numbers only: the text is whatever answered at that address, and this one is shown to whoever named it."""
    return f"HTTP {error.http_status_code}, code {error.error_code}"


def _remedy(status: int, subject: str) -> str:
    match status:
        case 401 | 403:
            return f"the Schema Registry refuses these credentials for {subject}: look at basic.auth and bearer.auth"
        case 404:
            return f"the Schema Registry does not know this schema under {subject}: register it (auto.register.schemas)"
        case 409:
            return f"the schema is not compatible with those before it under {subject}: change it, or the compatibility"
        case _:
            return f"the Schema Registry refuses the schema under {subject}"
