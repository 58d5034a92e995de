"""A batch between its two halves, the source offsets of the open transaction, and what a transaction committed."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringfence.connectors.api import RecordBatch, RecordPosition, SourceRecord
from ringfence.fencing.offsets.record_counts import RecordCounts
from ringfence.fencing.offsets.source_offsets import Offset, Partition, canonical


class GatheredOffsets:
    """The newest offset per source partition of the open transaction."""

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[str, tuple[Partition, Offset | None]] = {}

    def put(self, partition: Partition, offset: Offset | None) -> None:
        self._newest[canonical(partition)] = (partition, offset)

    def take(self) -> list[tuple[Partition, Offset | None]]:
        """All of them; the collection is empty afterwards."""
        taken = list(self._newest.values())
        self._newest.clear()
        return taken

    def peek(self) -> list[tuple[Partition, Offset | None]]:
        """All of them, as they stand."""
        return list(self._newest.values())

    def __bool__(self) -> bool:
        return bool(self._newest)


class Prepared:
    """A batch ready to be produced. `batch` is what the plugin returned; `size` counts the bytes of the values."""

    __slots__ = ("batch", "calls", "dead_letters", "offsets", "size", "skipped", "topics")

    def __init__(self, batch: Sequence[SourceRecord] | RecordBatch) -> None:
        self.batch = batch
        self.calls: list[tuple[object, ...]] = []
        """Positional arguments of `produce`, one tuple a record; empty for a `RecordBatch`, which needs none."""
        self.offsets: list[tuple[Partition, Offset | None]] = []
        """In the plugin's order: a later one of the same partition is newer; None deletes."""
        self.size = 0
        self.topics: set[str] = set()
        """Where its records go."""
        self.skipped = 0
        self.dead_letters = 0

    def counts(self, sent: int) -> RecordCounts:
        """What it adds to a transaction of which it sent so many."""
        return RecordCounts(sent - self.dead_letters, self.skipped, self.dead_letters)


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction that is in Kafka: for the plugin's callbacks."""

    records: Sequence[SourceRecord]
    offsets: Sequence[tuple[Partition, Offset | None]]
    topics: frozenset[str] = frozenset()
    positions: Sequence[RecordPosition | None] = ()
