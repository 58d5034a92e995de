"""An initial snapshot in one transaction (`snapshot.transaction`), recognised by source offsets in Debezium's form.

Debezium restarts an interrupted snapshot: what was already committed of it would be duplicated. So nothing of a
snapshot is committed before its last record, and a task that stops or pauses during the snapshot aborts it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ringfence.connectors.api import ConfigException, RecordBatch, SourceOffset, SourcePartition, SourceRecord
from ringfence.connectors.api.records import MixedBatch
from ringfence.connectors.java_settings import SNAPSHOT_TRANSACTION_TIMEOUT_MS
from ringfence.fencing.offsets.source_offsets import canonical
from ringfence.fencing.task.transaction_context import BatchPart, Ending, RequestedEndings

_PART: Final = 0.95
_ENDED: Final = ("last_snapshot_record", "snapshot_completed")


def is_of_a_snapshot(offset: SourceOffset | None) -> bool:
    """Return whether a snapshot is in progress after the record with this offset."""
    if offset is None or str(offset.get("snapshot") or "false").lower() == "false":
        return False
    return not any(offset.get(name) in (True, "true") for name in _ENDED)


class SnapshotEndings(RequestedEndings):
    """Keeps the transaction open while the newest offset of any source partition belongs to a snapshot.

    timeout_s: how long the broker lets it stay open; the snapshot is given up shortly before, to report the reason.
    open_s: returns its age, 0 if none is open.
    """

    def __init__(self, timeout_s: float, open_s: Callable[[], float]) -> None:
        super().__init__()
        self._timeout_s = timeout_s
        self._open_s = open_s
        self._under_way: set[str] = set()

    def parts(self, batch: Sequence[SourceRecord] | RecordBatch) -> list[BatchPart]:
        """Return the batch unchanged."""
        for partition, offset in _offsets_of(batch):
            if is_of_a_snapshot(offset):
                self._under_way.add(canonical(partition))
            elif self._under_way:
                self._under_way.discard(canonical(partition))
        return [BatchPart(batch)]

    def holds(self) -> bool:
        """Return whether to keep it open. Raises `ConfigException` if the snapshot takes too long, as a retry would."""
        if self._under_way and self._open_s() >= self._timeout_s * _PART:
            raise ConfigException(
                f"The snapshot has not ended within {SNAPSHOT_TRANSACTION_TIMEOUT_MS}={self._timeout_s * 1000:.0f}. "
                "Nothing of it is visible to a read_committed reader. Raise the setting, with the worker's "
                "connector.transaction.timeout.max.ms and the brokers' transaction.max.timeout.ms, or let the snapshot "
                "read fewer tables and take the others as incremental snapshots; then restart the task"
            )
        return bool(self._under_way)

    def at_the_end(self) -> Ending | None:
        """Return COMMIT, or None for an incomplete snapshot: then the open transaction is aborted."""
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
