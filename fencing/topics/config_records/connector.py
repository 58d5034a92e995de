"""`connector-<c>`: a connector's configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields, parse_strings
from ringfence.fencing.topics.connector_state import ConnectorState


@dataclass(frozen=True, slots=True)
class ConnectorRecord(ConnectorScopedRecord):
    """`config` None is a tombstone: the connector is deleted."""

    connector: ConnectorName
    config: Mapping[str, str] | None

    PREFIXES = ("connector-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "ConnectorRecord | None":
        if not rest:
            return None
        return cls(ConnectorName(rest), None if value is None else parse_strings(value["properties"]))

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"connector-{self.connector}"

    def to_value(self) -> Fields | None:
        return None if self.config is None else {"properties": dict(self.config)}

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        if self.config is None:
            # A deleted connector keeps its count and its commit: what may still be alive must be fenced (KIP-618).
            return replace(state, config=None, config_offset=offset, tasks={}, pending={}, unreadable=None)
        return replace(state, config=self.config, config_offset=offset, unreadable=None)
