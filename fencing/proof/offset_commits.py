"""Reads one connector's committed transactions from its offsets topic: producer, attempt and counts. Pure.

Each has its attempt's number of committed records so far (`fencing.offsets.record_counts`), so the next transaction of
the same attempt includes one that compaction has removed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from ringfence.fencing.kafka.record_batches import Batch, Marker
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from ringfence.fencing.proof.topic_tally import PackedRows, PackedValues, Producer

_NO_COUNTS: Final = (0,) * 5
_COLUMNS: Final = 8
"""Offset, key, task, generation, attempt, and three counts."""

Attempt = tuple[int, int, int]
"""Task, generation, attempt."""


class OffsetRecord(NamedTuple):
    """A record of the connector in its offsets topic, with its parsed header."""

    offset: int
    key: bytes | None
    value: bytes | None
    counts: AttemptCounts | None


class OffsetRecords:
    """The connector's records in its offsets topic, in little memory. Each is read once, by `up_to`."""

    def __init__(self) -> None:
        self._keys: dict[bytes | None, int] = {}
        self._rows: dict[int, PackedRows] = {}
        self._values: dict[int, PackedValues] = {}
        self._readers: dict[int, Iterator[OffsetRecord]] = {}
        self._ahead: dict[int, OffsetRecord | None] = {}

    def add(self, partition: int, record: OffsetRecord) -> None:
        """Add the next record of a partition."""
        key = self._keys.setdefault(record.key, len(self._keys))
        counts = (-1, *_NO_COUNTS) if record.counts is None else (*record.counts.key, *record.counts.counts)
        self._rows.setdefault(partition, PackedRows(_COLUMNS)).append(record.offset, key, *counts)
        self._values.setdefault(partition, PackedValues()).append(record.value)

    def up_to(self, partition: int, first: int, last: int) -> list[OffsetRecord]:
        """Return the records between these offsets, both included. Earlier ones cannot be asked for any more."""
        if partition not in self._rows:
            return []
        reader = self._readers.get(partition)
        if reader is None:
            reader = self._readers[partition] = self._read(partition)
            self._ahead[partition] = next(reader, None)
        records = []
        while (record := self._ahead[partition]) is not None and record.offset <= last:
            if record.offset >= first:
                records.append(record)
            self._ahead[partition] = next(reader, None)
        return records

    def _read(self, partition: int) -> Iterator[OffsetRecord]:
        keys = list(self._keys)
        rows = zip(self._rows[partition], self._values[partition], strict=True)
        for (offset, key, task, generation, attempt, *counts), value in rows:
            attempt_counts = None if task < 0 else AttemptCounts(task, generation, attempt, RecordCounts(*counts))
            yield OffsetRecord(offset, keys[key], value, attempt_counts)

    @property
    def bytes(self) -> int:
        """What rows and values take in memory."""
        rows, values = self._rows.values(), self._values.values()
        return sum(each.bytes for each in rows) + sum(each.bytes for each in values)


class Attempts:
    """Which attempt commits with each producer. With transactions v2, each transaction has an epoch of its own: a
    producer id and an attempt have a set of them, as the bits of a number.
    """

    def __init__(self) -> None:
        self._epochs: dict[int, dict[Attempt, int]] = {}

    def setdefault(self, who: Producer, attempt: Attempt) -> Attempt:
        """Return the attempt of a producer, which is `attempt` if there was none."""
        there = self.get(who)
        if there is not None:
            return there
        by_attempt = self._epochs.setdefault(who.producer_id, {})
        by_attempt[attempt] = by_attempt.get(attempt, 0) | 1 << who.epoch
        return attempt

    def get(self, who: Producer) -> Attempt | None:
        """Return the attempt of a producer; None if it commits for none."""
        for attempt, epochs in self._epochs.get(who.producer_id, {}).items():
            if epochs >> who.epoch & 1:
                return attempt
        return None

    def __contains__(self, who: Producer) -> bool:
        return self.get(who) is not None

    def __bool__(self) -> bool:
        return bool(self._epochs)


class Commit(NamedTuple):
    """A committed transaction. counts: its attempt's, including this one; early: before the cut."""

    time_ms: int
    counts: RecordCounts
    early: bool


@dataclass(slots=True)
class _Open:
    epoch: int
    records: list[OffsetRecord] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommits:
    """Folds the batches of the offsets topic in order. cut: what is committed before it must be in the data."""

    offset_records: OffsetRecords
    cut: Mapping[int, int]
    producers: Attempts = field(default_factory=Attempts)
    attempts: dict[Attempt, PackedRows] = field(default_factory=dict)
    """The commits of each attempt, as rows: `commits`."""
    source: dict[bytes | None, OffsetRecord] = field(default_factory=dict)
    """The newest committed record of each key, in the order of their markers."""
    strangers: list[Producer] = field(default_factory=list)
    """Producers that claim two attempts."""
    gaps: bool = False
    aborted: int = 0
    _open: dict[tuple[int, int], _Open] = field(default_factory=dict)
    _next: dict[int, int] = field(default_factory=dict)

    def take(self, partition: int, batch: Batch) -> None:
        """Apply the next batch of a partition."""
        next_offset = self._next.get(partition, 0)
        self.gaps |= batch.first != next_offset or batch.records != batch.last - batch.first + 1
        self._next[partition] = batch.last + 1
        if batch.control:
            if batch.marker is not None:
                self._end(partition, batch)
            return
        mine = self.offset_records.up_to(partition, batch.first, batch.last)
        if mine and batch.producer_id < 0:
            self._put(mine)
        elif mine:
            self._open.setdefault((partition, batch.producer_id), _Open(batch.epoch)).records += mine

    def _put(self, records: Sequence[OffsetRecord]) -> None:
        for record in records:
            self.source.pop(record.key, None)  # the last one is the newest
            self.source[record.key] = record

    def _end(self, partition: int, batch: Batch) -> None:
        transaction = self._open.pop((partition, batch.producer_id), None)
        if transaction is None:
            return
        if batch.marker is Marker.ABORT:
            self.aborted += 1
            return
        self._put(transaction.records)
        counts = next((each.counts for each in reversed(transaction.records) if each.counts is not None), None)
        if counts is None:
            return
        who, attempt = Producer(batch.producer_id, transaction.epoch), counts.key
        if self.producers.setdefault(who, attempt) != attempt:
            self.strangers.append(who)
        early = batch.first < self.cut.get(partition, 0)
        rows = self.attempts.setdefault(attempt, PackedRows(5))
        rows.append(batch.timestamp_ms, *counts.counts, early)

    def commits(self, attempt: Attempt) -> Iterator[Commit]:
        """Yield an attempt's transactions in the order of their commits: counts never decrease."""
        rows = self.attempts[attempt]
        in_order = all(one[1:4] <= other[1:4] for one, other in pairwise(rows))
        for time_ms, *counts, early in rows if in_order else sorted(rows, key=lambda row: (row[1:4], row[0])):
            yield Commit(time_ms, RecordCounts(*counts), bool(early))

    def totals(self) -> Iterator[RecordCounts]:
        """Yield what each attempt has committed in all."""
        for rows in self.attempts.values():
            yield RecordCounts(*max(counts for _, *counts, _ in rows))
