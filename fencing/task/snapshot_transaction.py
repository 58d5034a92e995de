"""An initial snapshot as one transaction (`snapshot.transaction`), told by source offsets in Debezium's form.

Debezium begins an interrupted snapshot again: what had been committed of it would be there twice. So nothing of a
snapshot is committed before its last record, and a task that stops or pauses in its midst aborts it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ringfence.connectors.api import ConfigException, RecordBatch, SourceOffset, SourcePartition, SourceRecord
from ringfence.connectors.api.records import MixedBatch
from ringfence.connectors.snapshot_settings import SNAPSHOT_TRANSACTION_TIMEOUT_MS
from ringfence.fencing.offsets.source_offsets import canonical
from ringfence.fencing.task.transaction_context import BatchPart, Ending, RequestedEndings

_PART: Final = 0.95
_ENDED: Final = ("last_snapshot_record", "snapshot_completed")


def is_of_a_snapshot(offset: SourceOffset | None) -> bool:
    """Whether a snapshot is under way after the record with this offset."""
    if offset is None or str(offset.get("snapshot") or "false").lower() == "false":
        return False
    return not any(offset.get(name) in (True, "true") for name in _ENDED)


class SnapshotEndings(RequestedEndings):
    """Holds the transaction open while the newest offset of any source partition is one of a snapshot.

    timeout_s: for how long the broker lets it be open; it is given up shortly before, so that the reason is told.
    open_s: its age, 0 where none is open.
    """

    def __init__(self, timeout_s: float, open_s: Callable[[], float]) -> None:
        super().__init__()
        self._timeout_s = timeout_s
        self._open_s = open_s
        self._under_way: set[str] = set()

    def parts(self, batch: Sequence[SourceRecord] | RecordBatch) -> list[BatchPart]:
        """The batch as it is."""
        for partition, offset in _offsets_of(batch):
            if is_of_a_snapshot(offset):
                self._under_way.add(canonical(partition))
            elif self._under_way:
                self._under_way.discard(canonical(partition))
        return [BatchPart(batch)]

    def holds(self) -> bool:
        """Raises `ConfigException` where the snapshot takes too long: another attempt would take as long."""
        if self._under_way and self._open_s() >= self._timeout_s * _PART:
            raise ConfigException(
                f"The snapshot has not ended within {SNAPSHOT_TRANSACTION_TIMEOUT_MS}={self._timeout_s * 1000:.0f}. "
                "Nothing of it is visible to a read_committed reader. Raise the setting, with the worker's "
                "connector.transaction.timeout.max.ms and the brokers' transaction.max.timeout.ms, or let the snapshot "
                "read fewer tables and take the others as incremental snapshots; then restart the task"
            )
        return bool(self._under_way)

    def at_the_end(self) -> Ending | None:
        """Half a snapshot is aborted."""
        return None if self._under_way else Ending.COMMIT


def _offsets_of(
    batch: Sequence[SourceRecord] | RecordBatch,
) -> Iterator[tuple[SourcePartition, Mapping[str, object] | None]]:
    if isinstance(batch, MixedBatch):
        yield from batch.offsets
    elif isinstance(batch, RecordBatch):
        yield batch.source_partition, batch.source_offset
    else:
        yield from ((record.source_partition, record.source_offset) for record in batch)
