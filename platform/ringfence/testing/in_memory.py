"""Runs a task without Kafka and without a process: for unit tests that take milliseconds."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.connectors.api import (
    ConnectorError,
    Endpoint,
    OffsetRecord,
    RecordBatch,
    RetriableError,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    SourceTask,
)
from ringfence.engine.plugins.instances import DetachedContext, SnapshotReader

_IDLE_SECONDS: Final = 0.02
CommittedOffsets = dict[str, tuple[SourcePartition, SourceOffset]]
"""Source offsets by their source partition, as JSON."""


class NeedsBroker(ConnectorError):
    """The task asks for something that only a running cluster has."""


class MemoryContext(DetachedContext):
    """The context of the task, with given committed offsets."""

    def __init__(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset]], ends_at: float
    ) -> None:
        """ends_at: when a wait ends at the latest, on the monotonic clock."""
        super().__init__(config, SnapshotReader(offsets))
        self._ends_at = ends_at
        self._never = threading.Event()
        self.reconfigurations = 0
        """How often the task has requested new task configurations."""

    def refusal_to_join(self, group: str) -> NeedsBroker:
        return NeedsBroker(f"A task in memory does not join {group}: check this connector with a broker.")

    def announce_endpoint(self, endpoint: Endpoint) -> None:
        raise NeedsBroker("A task in memory has no web process in front of it: check this connector with a broker.")

    def request_task_reconfiguration(self) -> None:
        self.reconfigurations += 1

    def wait(self, seconds: float) -> bool:
        """Wait for a shorter time than requested: what a test waits for is usually already there."""
        left = self._ends_at - time.monotonic()
        self._never.wait(max(0.0, min(seconds, left, _IDLE_SECONDS)))
        return time.monotonic() >= self._ends_at


def read(
    task_class: type[SourceTask],
    config: Mapping[str, str],
    offsets: Sequence[tuple[SourcePartition, SourceOffset]] = (),
    *,
    limit: int,
    seconds: float = 10.0,
    empty_polls: int = 3,
    offset_records: bool = False,
) -> list[SourceRecord]:
    """Return the first `limit` records, or fewer, of a task that starts at these committed offsets.

    It ends early after `empty_polls` polls in a row without a record, once there was one, and after `seconds`. Nothing
    is committed: `commit` is not called. `OffsetRecord`s are left out, or with `offset_records` included but not
    counted. Raises what the task raises.
    """
    ends_at = time.monotonic() + seconds
    task = task_class()
    task.context = MemoryContext(config, offsets, ends_at)
    records: list[SourceRecord] = []
    count = empty = 0
    try:
        task.start(config)
        while count < limit and time.monotonic() < ends_at and not (count and empty >= empty_polls):
            try:
                batch = task.poll()
            except RetriableError:
                batch = None
                task.context.wait(_IDLE_SECONDS)
            if isinstance(batch, RecordBatch):
                raise ConnectorError("The task returned a RecordBatch although context.raw_batches is false.")
            before = count
            for each in batch or ():
                real = not isinstance(each, OffsetRecord)
                if count < limit and (real or offset_records):
                    records.append(each)
                    count += real
            empty = 0 if count > before else empty + 1
    finally:
        task.stop()
    return records


def committed_after(
    records: Sequence[SourceRecord], before: Sequence[tuple[SourcePartition, SourceOffset]] = ()
) -> list[tuple[SourcePartition, SourceOffset]]:
    """Return the offsets that are committed with these records: the newest of each source partition, read back from
    JSON. Raises `TypeError` for values that are not JSON.
    """
    offsets: CommittedOffsets = {_text(partition): (partition, offset) for partition, offset in before}
    for record in records:
        if record.source_offset is not None:
            partition = json.loads(_text(record.source_partition))
            offsets[_text(partition)] = (partition, json.loads(_text(record.source_offset)))
    return list(offsets.values())


def _text(value: Mapping[str, object] | None) -> str:
    return json.dumps(value, sort_keys=True)
