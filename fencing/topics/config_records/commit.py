"""`commit-<c>`: the connector's task records before it are complete. Its offset is the generation's number."""

from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.topics.config_record import ConfigRecord, ConnectorScopedRecord, Fields, parse_tasks
from ringfence.fencing.topics.config_records.tombstone import TombstonePrefix, TombstoneRecord
from ringfence.fencing.topics.connector_state import Commit, ConnectorState


@dataclass(frozen=True, slots=True)
class CommitRecord(ConnectorScopedRecord):
    """tasks: the number of task records that belong to it."""

    connector: ConnectorName
    tasks: int

    PREFIXES = (TombstonePrefix.COMMIT,)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> ConfigRecord | None:
        if not rest:
            return None
        name = ConnectorName(rest)
        return (
            TombstoneRecord(name, TombstonePrefix.COMMIT) if value is None else cls(name, parse_tasks(value, "tasks"))
        )

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"{TombstonePrefix.COMMIT}{self.connector}"

    def to_value(self) -> Fields:
        return {"tasks": self.tasks}

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        all_tasks = {**state.tasks, **state.pending}
        tasks = {n: task for n, task in all_tasks.items() if n < self.tasks}
        return replace(state, commit=Commit(Generation(offset), self.tasks), tasks=tasks, pending={}, placements={})
