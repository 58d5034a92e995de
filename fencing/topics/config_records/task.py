"""`task-<c>-<n>`: one task's configuration. The next commit record puts it into effect."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ringfence.fencing.ids import ConnectorName, TaskId, parse_task
from ringfence.fencing.topics.config_record import Fields, TaskScopedRecord
from ringfence.fencing.topics.config_value import NOW, ConfigValue
from ringfence.fencing.topics.connector_state import ConnectorState, TaskConfig

if TYPE_CHECKING:
    from ringfence.fencing.topics.cluster_state import Fold


@dataclass(frozen=True, slots=True)
class TaskRecord(TaskScopedRecord):
    """`config` None is a tombstone. ciphertext, of: see `config_value`."""

    task: TaskId
    config: Mapping[str, str] | None
    ciphertext: str = ""
    of: int = NOW

    PREFIXES = ("task-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "TaskRecord | None":
        task = parse_task(rest)
        if task is None:
            return None
        if value is None:
            return cls(task, None)
        read = ConfigValue.parse(value)
        return cls(task, read.config, read.ciphertext, read.of)

    @property
    def owner(self) -> ConnectorName:
        return self.task.connector

    def to_key(self) -> str:
        return f"task-{self.task}"

    def to_value(self) -> Fields | None:
        return None if self.config is None else ConfigValue(self.config, self.ciphertext, self.of).to_fields()

    def apply(self, cluster: "Fold", offset: int) -> None:
        state = cluster.connector(self.owner)
        if self.config is None or not self._awaits_commit(state, offset):
            cluster.set(self.apply_to(state, offset))
            return
        pending = cluster.pending_of(state)
        pending[self.task.task] = self._task(self.config, offset)
        cluster.set(replace(state, pending=pending, task_keys=max(state.task_keys, self.task.task + 1)))

    def _task(self, config: Mapping[str, str], offset: int) -> TaskConfig:
        return TaskConfig(ConfigValue(config, of=self.of).stands_at(offset), config)

    def _awaits_commit(self, state: ConnectorState, offset: int) -> bool:
        """Return whether the next commit record puts it into effect."""
        since = ConfigValue(self.config or {}, of=self.of).stands_at(offset)
        return state.commit is None or since > state.commit.generation

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        number = self.task.task
        if self.config is None:
            return replace(state, pending={n: c for n, c in state.pending.items() if n != number})
        task = self._task(self.config, offset)
        keys = max(state.task_keys, number + 1)
        if state.commit is None or self._awaits_commit(state, offset):
            return replace(state, pending={**state.pending, number: task}, task_keys=keys)
        # Written again, encrypted with another key, after its commit record: it belongs to that generation.
        tasks = {**state.tasks, number: task} if number < state.commit.tasks else state.tasks
        return replace(state, tasks=tasks, task_keys=keys)
