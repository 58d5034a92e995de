"""What a converter is: it turns the keys, values and headers that a connector hands over into bytes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import ConfigDef, ConnectorError, Schema, SchemaAndValue
from ringfence.connectors.columns import Column


class Converter(ABC):
    """Turns one kind of thing (keys or values) of one connector into bytes.

    One instance serves one task, on one thread. `from_record` is on the hot path: the framework binds it once.
    """

    aliases: ClassVar[tuple[str, ...]] = ()
    """Further names in `key.converter` and the like, such as the Java class that this one is a twin of."""

    to_bytes_is_identity: bool = False
    """True (after `configure`) where bytes come out as they went in: then a `RecordBatch` may bypass the converter."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        """The converter's own settings, without the prefix (`value.converter.`)."""
        return ConfigDef()

    @abstractmethod
    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Take the settings, prefix stripped. Raises `ConfigException` for one that is wrong or not supported."""

    @abstractmethod
    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        """The bytes for one key or value; None stays None (a tombstone). Raises `ConnectorError` for what it cannot.

        schema: what the value is, None where the record does not say.
        """

    def from_batch(self, topic: str, values: Sequence[object], schema: Schema | None = None) -> list[bytes | None]:
        """The same for many values at once; a converter that knows a faster way overrides it."""
        convert = self.from_record
        return [convert(topic, value, schema) for value in values]

    def from_column(self, column: Column) -> list[bytes | None]:
        """The same for the values of a column, which may be used up."""
        return self.from_batch(column.topic, column.whole(), column.schema)

    def trial(self) -> None:  # noqa: B027 - optional to override
        """What follows is a trial: nothing outside may change, so ids that others would give may be left out."""

    def close(self) -> None:  # noqa: B027 - optional to override
        """Free what `configure` took."""


class HeaderConverter(ABC):
    """Turns header values into bytes."""

    aliases: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def config_def(cls) -> ConfigDef:
        """The converter's own settings, without the prefix `header.converter.`."""
        return ConfigDef()

    def configure_headers(self, config: Mapping[str, str]) -> None:  # noqa: B027 - optional to override
        """Take the settings, prefix stripped."""

    @abstractmethod
    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        """The bytes for one header value; None stays None."""

    def from_headers(self, topic: str, headers: Sequence[tuple[str, object]]) -> list[tuple[str, bytes | None]]:
        """All headers of a record: names stay, values become bytes."""
        made = []
        for name, value in headers:
            if value.__class__ is SchemaAndValue:
                made.append((name, self.from_header(topic, name, value.value, value.schema)))
            else:
                made.append((name, self.from_header(topic, name, value)))
        return made


def refuse(converter: object, topic: str, value: object, remedy: str) -> ConnectorError:
    """The error for a value that the converter cannot turn into bytes; it names the type, never the value."""
    return ConnectorError(
        f"{type(converter).__name__} cannot convert a value of type {type(value).__name__} for topic {topic}: {remedy}"
    )
