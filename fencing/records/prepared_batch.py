"""A batch between `prepare` and `send`, the source offsets of the open transaction, and the result of a commit."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringfence.connectors.api import RecordBatch, RecordPosition, SourceRecord
from ringfence.connectors.api.records import SERIALIZED
from ringfence.fencing.offsets.record_counts import RecordCounts
from ringfence.fencing.offsets.source_offsets import Offset, Partition, canonical


class GatheredOffsets:
    """The newest offset of each source partition in the open transaction."""

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[str, tuple[Partition, Offset | None]] = {}

    def put(self, partition: Partition, offset: Offset | None) -> None:
        self._newest[canonical(partition)] = (partition, offset)

    def take(self) -> list[tuple[Partition, Offset | None]]:
        """Return all of them, and empty the collection."""
        offsets = list(self._newest.values())
        self._newest.clear()
        return offsets

    def peek(self) -> list[tuple[Partition, Offset | None]]:
        """Return all of them, and keep them."""
        return list(self._newest.values())

    def __bool__(self) -> bool:
        return bool(self._newest)


class PreparedBatch:
    """A batch that is ready to be produced. `batch` is what the plugin returned; `size` is the size of the values in
    bytes.
    """

    __slots__ = ("batch", "calls", "dead_letters", "offsets", "pauses", "size", "skipped", "together", "topics")

    def __init__(self, batch: Sequence[SourceRecord] | RecordBatch) -> None:
        self.batch = batch
        self.calls: list[tuple[object, ...]] = []
        """The positional arguments of `produce`, one tuple per record; empty for a `RecordBatch`, which does not need
        them.
        """
        self.offsets: list[tuple[Partition, Offset | None]] = []
        """In the plugin's order: a later offset of the same partition is newer; None deletes."""
        self.size = 0
        self.topics: set[str] = set()
        """The topics that its records go to."""
        self.pauses: list[int] = []
        """Positions in `calls` before which all earlier ones have to be delivered: together they would be too large."""
        self.together = 0
        """What the calls behind the last pause take in a record batch, in bytes; only admitted records count."""
        self.skipped = 0
        self.dead_letters = 0

    def counts(self, count: int) -> RecordCounts:
        """Return what the batch adds to its transaction, if `count` of its records were sent."""
        return RecordCounts(count - self.dead_letters, self.skipped, self.dead_letters)


class AdmittedRecord(SourceRecord):
    """A record that is ready to be produced: `poll` returns it in place of the one that it was made of.

    ready: the batch of this one record; bytes: what it takes in a record batch; most: what a record batch may take in
    its topic, 0 if the producer's own batches are smaller.
    """

    __slots__ = ("bytes", "most", "ready")

    def __init__(self, record: SourceRecord, ready: PreparedBatch, size: int = 0, most: int = 0) -> None:
        super().__init__(record.source_partition, record.source_offset, record.topic, None, value_schema=SERIALIZED)
        self.ready = ready
        self.bytes = size
        self.most = most


@dataclass(frozen=True, slots=True)
class CommittedTransaction:
    """A committed transaction, for the plugin's callbacks."""

    records: Sequence[SourceRecord]
    offsets: Sequence[tuple[Partition, Offset | None]]
    topics: frozenset[str] = frozenset()
    positions: Sequence[RecordPosition | None] = ()
