"""`tasks-count-<c>` (ours) or `tasks-fencing-<c>` (Kafka Connect's): all earlier generations are fenced (KIP-618)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.topics.config_record import (
    ConfigRecord,
    ConnectorScopedRecord,
    Fields,
    parse_integer,
    parse_strings,
    parse_tasks,
)
from ringfence.fencing.topics.config_records.tombstone import TombstonePrefix, TombstoneRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TaskCount


@dataclass(frozen=True, slots=True)
class TaskCountRecord(ConnectorScopedRecord):
    """generation: None in Kafka Connect's form.

    target: the client settings with which that generation's tasks produce; empty for the worker's own cluster.
    elsewhere: whether any generation of this name kept its offsets outside of the worker's topic; None: unknown.
    ciphertext: the encrypted settings of `target`. The number of tasks is never encrypted, so that a reader without the
    key knows what is to be fenced.
    """

    connector: ConnectorName
    tasks: int
    generation: Generation | None
    target: Mapping[str, str] = field(default_factory=dict)
    elsewhere: bool | None = None
    ciphertext: str = ""

    PREFIXES = (TombstonePrefix.COUNT, TombstonePrefix.FENCING)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> ConfigRecord | None:
        if not rest:
            return None
        name = ConnectorName(rest)
        if value is None:
            return TombstoneRecord(name, TombstonePrefix(prefix))
        if prefix == TombstonePrefix.FENCING:
            return cls(name, parse_tasks(value, "task-count"), None)
        generation = Generation(parse_integer(value, "generation")) if "generation" in value else None
        elsewhere = bool(value["elsewhere"]) if "elsewhere" in value else None
        target = parse_strings(value.get("target", {}))
        ciphertext = str(value.get("sealed", ""))
        return cls(name, parse_tasks(value, "tasks"), generation, target, elsewhere, ciphertext)

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"{TombstonePrefix.FENCING if self.generation is None else TombstonePrefix.COUNT}{self.connector}"

    def to_value(self) -> Fields:
        if self.generation is None:
            return {"task-count": self.tasks}
        value: dict[str, object] = {"tasks": self.tasks, "generation": self.generation, "target": dict(self.target)}
        if self.elsewhere is not None:
            value["elsewhere"] = self.elsewhere
        return {**value, "sealed": self.ciphertext} if self.ciphertext else value

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        count = TaskCount(self.tasks, self.generation, self.target, self.elsewhere, bool(self.ciphertext))
        return replace(state, count=count)
