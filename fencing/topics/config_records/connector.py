"""`connector-<c>`: a connector's configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields
from ringfence.fencing.topics.config_value import NOW, ConfigValue
from ringfence.fencing.topics.connector_state import ConnectorState


@dataclass(frozen=True, slots=True)
class ConnectorRecord(ConnectorScopedRecord):
    """config: None is a tombstone, which deletes the connector. ciphertext, of: see `config_value`."""

    connector: ConnectorName
    config: Mapping[str, str] | None
    ciphertext: str = ""
    of: int = NOW

    PREFIXES = ("connector-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "ConnectorRecord | None":
        if not rest:
            return None
        if value is None:
            return cls(ConnectorName(rest), None)
        read = ConfigValue.parse(value)
        return cls(ConnectorName(rest), read.config, read.ciphertext, read.of)

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"connector-{self.connector}"

    def to_value(self) -> Fields | None:
        return None if self.config is None else ConfigValue(self.config, self.ciphertext, self.of).to_fields()

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        if self.config is None:
            # A deleted connector keeps its count and its commit: tasks that may be alive must be fenced (KIP-618).
            return replace(state, config=None, config_offset=offset, tasks={}, pending={}, unreadable=None)
        since = ConfigValue(self.config, of=self.of).stands_at(offset)
        return replace(state, config=self.config, config_offset=since, unreadable=None)
