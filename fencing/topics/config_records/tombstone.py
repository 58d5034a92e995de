"""Tombstones of a deleted connector's commit and task count records."""

from dataclasses import dataclass, replace
from enum import StrEnum

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields
from ringfence.fencing.topics.connector_state import ConnectorState


class TombstonePrefix(StrEnum):
    """Which of a deleted connector's records a tombstone removes: the beginning of its key."""

    COMMIT = "commit-"
    COUNT = "tasks-count-"
    FENCING = "tasks-fencing-"


@dataclass(frozen=True, slots=True)
class TombstoneRecord(ConnectorScopedRecord):
    """The tombstone of one of a deleted connector's records; `CommitRecord` and `TaskCountRecord` read it."""

    connector: ConnectorName
    what: TombstonePrefix

    PREFIXES = ()

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "TombstoneRecord | None":
        return cls(ConnectorName(rest), TombstonePrefix(prefix)) if rest and value is None else None

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"{self.what}{self.connector}"

    def to_value(self) -> Fields | None:
        return None

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        if self.what is TombstonePrefix.COMMIT:
            return replace(state, commit=None, tasks={}, pending={}, placements={}, task_keys=0)
        ours = state.count is not None and state.count.generation is not None
        if self.what is TombstonePrefix.FENCING and ours:  # only Kafka Connect's form is removed, and ours stays valid
            return state
        return replace(state, count=None)
