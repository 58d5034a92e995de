"""Where transactions end (KIP-618, "Transaction boundaries"). Pure: the task asks, and acts on the answer.

An initial snapshot in one transaction (`snapshot.transaction`) is recognised by source offsets in Debezium's form.
Debezium restarts an interrupted snapshot: what was already committed of it would be duplicated. So nothing of a
snapshot is committed before its last record, and a task that stops or pauses during the snapshot aborts it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ringfence.connectors.api import ConfigException, RecordBatch, SourceOffset, SourcePartition, SourceRecord
from ringfence.connectors.api.records import MixedBatch
from ringfence.connectors.common_settings import (
    SNAPSHOT_TRANSACTION_TIMEOUT_MS,
    TRANSACTION_BOUNDARY_INTERVAL_MS,
    snapshot_timeout_ms,
)
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, transaction_boundary
from ringfence.fencing.errors import Invalid
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


class Boundary(StrEnum):
    """`transaction.boundary`."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Decides after each batch that `poll` returned whether the open transaction ends: see `due`.

    interval_s: seconds between commits if kind is INTERVAL. snapshot_ms: how long the transaction of an initial
    snapshot may be open; 0 if a snapshot is not a single transaction (`fencing.task.boundaries`).
    """

    kind: Boundary
    interval_s: float = 0.0
    snapshot_ms: int = 0

    @classmethod
    def of(
        cls, config: Mapping[str, str], default_interval_ms: int, default: str = Boundary.POLL.value
    ) -> "Boundaries":
        """Read them from a connector's configuration; the default interval is the worker's
        `offset.flush.interval.ms`. default: the boundary of a configuration that sets none.
        """
        name = transaction_boundary(config, default)
        if name not in list(Boundary):
            raise Invalid(f"{TRANSACTION_BOUNDARY}={name}: use poll, interval or connector")
        snapshot_ms = _snapshot_ms(config)
        if snapshot_ms and name == Boundary.CONNECTOR:
            raise Invalid(f"snapshot.transaction=true with {TRANSACTION_BOUNDARY}=connector: remove one of them")
        if name != Boundary.INTERVAL:
            return cls(Boundary(name), snapshot_ms=snapshot_ms)
        text = (config.get(TRANSACTION_BOUNDARY_INTERVAL_MS) or "").strip() or str(default_interval_ms)
        if not text.isdecimal() or int(text) < 1:
            raise Invalid(f"{TRANSACTION_BOUNDARY_INTERVAL_MS}={text}: an integer of at least 1 is expected")
        return cls(Boundary.INTERVAL, int(text) / 1000, snapshot_ms)

    def due(self, now: float, last_commit: float) -> bool:
        """Return whether to commit after a batch (or an empty poll) at monotonic time `now`."""
        match self.kind:
            case Boundary.POLL:
                return True
            case Boundary.INTERVAL:
                return now - last_commit >= self.interval_s
            case Boundary.CONNECTOR:
                return False  # only on request: `fencing.task.transaction_context`

    def transaction_timeout_ms(self, configured_ms: int) -> int:
        """Return at least three intervals, so that a slow commit does not look like a dead task, and at least a
        snapshot's time.
        """
        return max(configured_ms, int(self.interval_s * 3000), self.snapshot_ms)


def _snapshot_ms(config: Mapping[str, str]) -> int:
    try:
        return snapshot_timeout_ms(config)
    except ValueError as error:
        raise Invalid(f"{SNAPSHOT_TRANSACTION_TIMEOUT_MS}: an integer is expected ({error})") from error
