"""A task's surroundings, in memory."""

from collections.abc import Sequence

from ringfence.connectors.api import (
    Endpoint,
    RecordBatch,
    RecordRefused,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    SourceTask,
)
from ringfence.engine.plugins.instances import DetachedContext, SnapshotReader


class FakeOffsets(SnapshotReader):
    """Committed offsets that change while a task runs."""

    def __init__(self, offsets: Sequence[tuple[SourcePartition, SourceOffset]] = ()) -> None:
        self.known = [(dict(partition), offset) for partition, offset in offsets]

    def put(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        self.known = [one for one in self.known if one[0] != dict(partition)]
        if offset is not None:
            self.known.append((dict(partition), offset))

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        return next((offset for known, offset in self.known if known == dict(partition)), None)


class FakeContext(DetachedContext):
    """Waits are counted, not slept."""

    def __init__(self, offsets: FakeOffsets | None = None, *, raw: bool = False) -> None:
        super().__init__({}, offsets or FakeOffsets())
        self.raw_batches = raw
        self.waits: list[float] = []
        self.endpoints: list[Endpoint] = []
        self.reconfigurations = 0
        self.refused: dict[object, RecordRefused] = {}
        """By key of the record; all others are admitted."""

    def admit(self, records: Sequence[SourceRecord]) -> list[SourceRecord | RecordRefused]:
        return [self.refused.get(record.key, record) for record in records]

    def announce_endpoint(self, endpoint: Endpoint) -> None:
        self.endpoints.append(endpoint)

    def request_task_reconfiguration(self) -> None:
        self.reconfigurations += 1

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return False


def poll_all(task: SourceTask) -> list[tuple[object, SourceOffset]]:
    """Poll until there is nothing: each value with the offset after it ({}: deleted), in a batch the last one."""
    found: list[tuple[object, SourceOffset]] = []
    while polled := task.poll():
        if isinstance(polled, RecordBatch):
            found += [(value, polled.source_offset) for value in polled.values]
        else:
            found += [(record.value, record.source_offset or {}) for record in polled]
    return found
