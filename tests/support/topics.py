"""Records of the four topics, made by hand."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.offsets import record_counts
from ringfence.fencing.offsets.record_counts import AttemptCounts
from ringfence.fencing.topics import config_records as codec
from ringfence.fencing.topics import events, status
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TaskCountRecord,
    TaskRecord,
)
from ringfence.fencing.topics.status import ConnectorStatus, State, StatusRecord, TaskStatus


@dataclass(frozen=True)
class Entry:
    """As `fencing.topics.topic_log.LogRecord`."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 1_000
    headers: Sequence[tuple[str, bytes | None]] = ()


class Topic:
    """One partition that only grows: `add` returns what was added."""

    def __init__(self) -> None:
        self.records: list[Entry] = []

    @property
    def end(self) -> dict[int, int]:
        return {0: len(self.records)}

    def raw(
        self,
        key: bytes | None,
        value: bytes | None,
        at: int = 1_000,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> list[Entry]:
        self.records.append(Entry(0, len(self.records), key, value, at, headers))
        return self.records[-1:]

    def config(self, *records: ConfigRecord) -> list[Entry]:
        return [entry for record in records for entry in self.raw(*codec.encode(record))]

    def status(self, *records: StatusRecord) -> list[Entry]:
        return [entry for record in records for entry in self.raw(*status.encode(record))]

    def event(self, **fields: object) -> list[Entry]:
        return self.raw(*events.encode({"time_ms": 1_000, **fields}))

    def offset(
        self,
        connector: str,
        partition: object,
        offset: object,
        committed: AttemptCounts | None = None,
        at: int = 1_000,
    ) -> list[Entry]:
        value = None if offset is None else json.dumps(offset).encode()
        headers = [] if committed is None else record_counts.encode(committed)
        return self.raw(json.dumps([connector, partition]).encode(), value, at, headers)


def connector(name: str, **config: str) -> ConnectorRecord:
    return ConnectorRecord(ConnectorName(name), {"name": name, "connector.class": "VerifiableSource", **config})


def generation(name: str, tasks: int, next_offset: int) -> Iterable[ConfigRecord]:
    """The task records, the commit and the count of a generation whose first record gets `next_offset`."""
    owner = ConnectorName(name)
    yield from (TaskRecord(TaskId(owner, n), {"task.id": str(n)}) for n in range(tasks))
    yield CommitRecord(owner, tasks)
    yield TaskCountRecord(owner, tasks, Generation(next_offset + tasks))


def connector_status(name: str, state: State, trace: str | None = None) -> ConnectorStatus:
    return ConnectorStatus(ConnectorName(name), state, WorkerId("w1"), Generation(1), trace)


def task_status(name: str, number: int, state: State, generation: int = 1, trace: str | None = None) -> TaskStatus:
    task = TaskId(ConnectorName(name), number)
    return TaskStatus(task, state, WorkerId("w1"), Generation(generation), 1, Incarnation("i"), trace)
