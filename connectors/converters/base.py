"""The interface of converters, which turn a connector's keys, values and headers into bytes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import ConfigDef, ConnectorError, Schema, SchemaAndValue
from ringfence.connectors.api.schemas import describe_kind
from ringfence.connectors.columns import Column


class Converter(ABC):
    """Converts the keys or the values of one connector into bytes.

    One instance serves one task, on one thread. `from_record` is on the hot path: the framework binds it once.
    """

    aliases: ClassVar[tuple[str, ...]] = ()
    """Further names for `key.converter` and similar settings, such as the Java class of the counterpart."""

    to_bytes_is_identity: bool = False
    """True (after `configure`) if bytes are passed through unchanged: then a `RecordBatch` may bypass the converter."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        """Return the converter's own settings, without the prefix (`value.converter.`)."""
        return ConfigDef()

    @abstractmethod
    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Apply the settings, given without the prefix. Raises `ConfigException` for an invalid or unsupported one."""

    @abstractmethod
    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        """Return the bytes for a key or value; None stays None (a tombstone). Raises `ConnectorError` if it cannot be
        converted.

        schema: the value's, None if the record has none.
        """

    def from_batch(self, topic: str, values: Sequence[object], schema: Schema | None = None) -> list[bytes | None]:
        """Do the same for many values at once. Override it if there is a faster way."""
        convert = self.from_record
        return [convert(topic, value, schema) for value in values]

    def from_column(self, column: Column) -> list[bytes | None]:
        """Do the same for the values of a column, which may be consumed."""
        return self.from_batch(column.topic, column.whole(), column.schema)

    def schema_text(self, topic: str, value: object, schema: Schema | None = None) -> tuple[str, str] | None:
        """Return the schema of which the bytes of this value have only an id: its format and its text; None if they
        have none.
        """
        return None

    def trial(self) -> None:  # noqa: B027 - optional to override
        """Switch to trial mode: nothing external may change, so the converter may omit ids that a registry would
        assign.
        """

    def close(self) -> None:  # noqa: B027 - optional to override
        """Free the resources that `configure` acquired."""


class HeaderConverter(ABC):
    """Converts header values into bytes."""

    aliases: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def config_def(cls) -> ConfigDef:
        """Return the converter's own settings, without the prefix `header.converter.`."""
        return ConfigDef()

    def configure_headers(self, config: Mapping[str, str]) -> None:  # noqa: B027 - optional to override
        """Apply the settings, given without the prefix."""

    @abstractmethod
    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        """Return the bytes for a header value; None stays None."""

    def from_headers(self, topic: str, headers: Sequence[tuple[str, object]]) -> list[tuple[str, bytes | None]]:
        """Convert all headers of a record. Names are kept."""
        pairs = []
        for name, value in headers:
            if value.__class__ is SchemaAndValue:
                pairs.append((name, self.from_header(topic, name, value.value, value.schema)))
            else:
                pairs.append((name, self.from_header(topic, name, value)))
        return pairs


def refuse(converter: object, topic: str, value: object, remedy: str) -> ConnectorError:
    """Return the error for a value that cannot be converted. It names the type, never the value."""
    return ConnectorError(
        f"{type(converter).__name__} cannot convert {describe_kind(value)} for topic {topic}: {remedy}"
    )
