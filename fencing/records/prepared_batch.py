"""A batch between `prepare` and `send`, the source offsets of the open transaction, and the result of a commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import RecordBatch, RecordPosition, SourceRecord
from ringfence.connectors.api.records import SERIALIZED, RawHeaders
from ringfence.fencing.offsets.record_counts import RecordCounts
from ringfence.fencing.offsets.source_offsets import Offset, Partition, canonical
from ringfence.fencing.transactions.record_columns import GrowingColumns, RecordColumns

_MANY: Final = 32
"""Fewer records are not worth columns of their own."""


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

    columns: the records, in an order that keeps each partition's; count: their number; offsets: in the plugin's order,
    a later one of the same source partition is newer, None deletes; topics: those that its records go to.
    """

    __slots__ = (
        "_growing", "_keeps_rows", "batch", "columns", "count", "dead_letters", "offsets", "size", "skipped", "topics",
    )  # fmt: skip

    def __init__(self, batch: Sequence[SourceRecord] | RecordBatch, *, keeps_rows: bool = False) -> None:
        """keeps_rows: whether the columns say where each record stands in the batch."""
        self.batch = batch
        self.columns: list[RecordColumns] = []
        self.count = 0
        self.offsets: list[tuple[Partition, Offset | None]] = []
        self.size = 0
        self.topics: set[str] = set()
        self.skipped = 0
        self.dead_letters = 0
        self._keeps_rows = keeps_rows
        self._growing: dict[str, dict[int, GrowingColumns]] = {}

    @property
    def counts(self) -> RecordCounts:
        """What the batch adds to its transaction."""
        return RecordCounts(self.count - self.dead_letters, self.skipped, self.dead_letters)

    def add(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp: int,
        headers: RawHeaders | None,
    ) -> None:
        """Add a record. partition: -1 for the partitioner's choice; timestamp: 0 for now."""
        by_partition = self._growing.get(topic)
        columns = None if by_partition is None else by_partition.get(partition)
        if columns is None:
            columns = self._begin(topic, partition)
        columns.add(value, key, timestamp, headers)
        if columns.rows is not None:
            columns.rows.append(self.count)
        self.count += 1

    def _begin(self, topic: str, partition: int) -> GrowingColumns:
        columns = GrowingColumns(topic, partition, keeps_rows=self._keeps_rows)
        self.columns.append(columns)
        by_partition = self._growing.get(topic)
        # A record that the partitioner places may come to the same partition as one that names it.
        if by_partition is None or (partition < 0) != (-1 in by_partition):
            by_partition = self._growing[topic] = {}
        by_partition[partition] = columns
        return columns

    def add_run(self, run: RecordColumns) -> None:
        """Add records, however few: to the last ones of their topic and partition, if there are any."""
        if len(run) >= _MANY:
            self.add_columns(run.topic, run.values, run.keys, run.partition, run.timestamps, run.headers)
            return
        for each in run.records():
            self.add(*each)

    def add_columns(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        partition: int = -1,
        timestamps: Sequence[int] | None = None,
        headers: Sequence[RawHeaders | None] | None = None,
    ) -> None:
        """Add many records. keys, timestamps (0 or less for now), headers: None, or one for each value."""
        if timestamps and min(timestamps) < 0:
            timestamps = [max(0, each) for each in timestamps]
        rows = range(self.count, self.count + len(values))
        self.columns.append(RecordColumns(topic, partition, values, keys, timestamps, headers, rows))
        self.count += len(values)
        self._growing.pop(topic, None)


class AdmittedRecord(SourceRecord):
    """A record that is ready to be produced: `poll` returns it in place of the one that it was made of.

    ready: the batch of this one record.
    """

    __slots__ = ("ready",)

    def __init__(self, record: SourceRecord, ready: PreparedBatch) -> None:
        super().__init__(record.source_partition, record.source_offset, record.topic, None, value_schema=SERIALIZED)
        self.ready = ready


@dataclass(frozen=True, slots=True)
class CommittedTransaction:
    """A committed transaction, for the plugin's callbacks."""

    records: Sequence[SourceRecord]
    offsets: Sequence[tuple[Partition, Offset | None]]
    topics: frozenset[str] = frozenset()
    positions: Sequence[RecordPosition | None] = ()
