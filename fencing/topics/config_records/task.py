"""`task-<c>-<n>`: one task's configuration. It counts from the next commit record on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics.config_record import Fields, TaskScopedRecord, parse_strings, parse_task
from ringfence.fencing.topics.connector_state import ConnectorState, TaskConfig


@dataclass(frozen=True, slots=True)
class TaskRecord(TaskScopedRecord):
    """`config` None is a tombstone."""

    task: TaskId
    config: Mapping[str, str] | None

    PREFIXES = ("task-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "TaskRecord | None":
        task = parse_task(rest)
        if task is None:
            return None
        return cls(task, None if value is None else parse_strings(value["properties"]))

    @property
    def owner(self) -> ConnectorName:
        return self.task.connector

    def to_key(self) -> str:
        return f"task-{self.task}"

    def to_value(self) -> Fields | None:
        return None if self.config is None else {"properties": dict(self.config)}

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        number = self.task.task
        if self.config is None:
            return replace(state, pending={n: c for n, c in state.pending.items() if n != number})
        pending = {**state.pending, number: TaskConfig(offset, self.config)}
        return replace(state, pending=pending, task_keys=max(state.task_keys, number + 1))
