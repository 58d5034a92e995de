"""`placement-<c>-<n>`: the only attempt of a task that may run now."""

from dataclasses import dataclass, replace

from ringfence.fencing.ids import (
    NO_GENERATION,
    NOBODY,
    ConnectorName,
    Generation,
    Incarnation,
    TaskId,
    WorkerId,
    parse_task,
)
from ringfence.fencing.modes import Mode
from ringfence.fencing.topics.config_record import Fields, TaskScopedRecord, parse_integer
from ringfence.fencing.topics.connector_state import ConnectorState, Placement


@dataclass(frozen=True, slots=True)
class PlacementRecord(TaskScopedRecord):
    """worker: None is a tombstone. mode: the worker's, in which the attempt runs. after: the attempt that must end
    before this one may start; 0 if it may start at once.
    """

    task: TaskId
    worker: WorkerId | None
    incarnation: Incarnation = NOBODY
    attempt: int = 0
    generation: Generation = NO_GENERATION
    restarts: int = 0
    placed_ms: int = 0
    mode: Mode = Mode.ENABLED
    after: int = 0

    PREFIXES = ("placement-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "PlacementRecord | None":
        task = parse_task(rest)
        if task is None:
            return None
        if value is None:
            return cls(task, None)
        return cls(
            task,
            WorkerId(str(value["worker"])),
            Incarnation(str(value["incarnation"])),
            parse_integer(value, "attempt"),
            Generation(parse_integer(value, "generation")),
            parse_integer(value, "restarts", 0),
            parse_integer(value, "placed_ms", 0),
            Mode(str(value.get("mode", Mode.ENABLED))),
            parse_integer(value, "after", 0),
        )

    @property
    def owner(self) -> ConnectorName:
        return self.task.connector

    def to_key(self) -> str:
        return f"placement-{self.task}"

    def to_value(self) -> Fields | None:
        if self.worker is None:
            return None
        value: dict[str, object] = {
            "worker": self.worker,
            "incarnation": self.incarnation,
            "attempt": self.attempt,
            "generation": self.generation,
            "restarts": self.restarts,
            "placed_ms": self.placed_ms,
            "mode": self.mode,
        }
        return {**value, "after": self.after} if self.after else value

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        number = self.task.task
        if self.worker is None:
            placements = {n: p for n, p in state.placements.items() if n != number}
            is_last = state.config is None and number == state.task_keys - 1  # its task record is removed before
            return replace(state, placements=placements, task_keys=number if is_last else state.task_keys)
        about = (self.restarts, self.placed_ms, self.mode, self.after)
        placement = Placement(self.worker, self.incarnation, self.attempt, self.generation, *about)
        placements = {**state.placements, number: placement}
        return replace(state, placements=placements, task_keys=max(state.task_keys, number + 1))
