"""Counts what a connector wrote: each producer's records in a topic by their outcome, from batch headers, without
reading records; and its committed transactions in its offsets topic, each with producer, attempt and counts. Pure.

A transaction is decided by the next marker of its producer id in each partition (`fencing.kafka.record_batches`). In
the offsets topic, each has its attempt's number of committed records so far (`fencing.offsets.record_counts`), so the
next transaction of the same attempt includes one that compaction has removed.

A proof has to keep something of each transaction: any of them may turn out to lack its records. Neighbours differ by
little, so blocks of rows are kept as differences from row to row, compressed. That takes some bytes for a row, and
hundreds as objects.
"""

import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto
from itertools import accumulate, pairwise
from operator import sub
from typing import Final, NamedTuple

from ringfence.fencing.kafka.record_batches import Batch, Marker
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts

_BLOCK_ROWS: Final = 4096
_BLOCK_BYTES: Final = 256 * 1024
_LEVEL: Final = 1


class PackedRows:
    """Rows of as many integers of 64 bits as there are columns."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._blocks: list[bytes] = []
        self._newest = array("q")

    def append(self, *row: int) -> None:
        """Append a row."""
        self._newest.extend(row)
        if len(self._newest) >= _BLOCK_ROWS * self._columns:
            self._blocks.append(zlib.compress(b"".join(map(_pack, self._split(self._newest))), _LEVEL))
            self._newest = array("q")

    def _split(self, numbers: "array[int]") -> list["array[int]"]:
        return [numbers[column :: self._columns] for column in range(self._columns)]

    def __len__(self) -> int:
        return len(self._blocks) * _BLOCK_ROWS + len(self._newest) // self._columns

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for block in self._blocks:
            differences = array("q", zlib.decompress(block))
            starts = range(0, len(differences), _BLOCK_ROWS)
            yield from zip(*(accumulate(differences[at : at + _BLOCK_ROWS]) for at in starts), strict=True)
        yield from zip(*self._split(self._newest), strict=True)

    @property
    def bytes(self) -> int:
        """What the rows take in memory."""
        return sum(map(len, self._blocks)) + len(self._newest) * self._newest.itemsize


def _pack(column: "array[int]") -> bytes:
    return array("q", [column[0], *map(sub, column[1:], column)]).tobytes()


class PackedValues:
    """Bytes, or None, in their order."""

    def __init__(self) -> None:
        self._sizes = PackedRows(1)
        self._blocks: list[bytes] = []
        self._newest = bytearray()

    def append(self, value: bytes | None) -> None:
        """Append a value."""
        self._sizes.append(-1 if value is None else len(value))
        self._newest += value or b""
        if len(self._newest) >= _BLOCK_BYTES:
            self._blocks.append(zlib.compress(self._newest, _LEVEL))
            self._newest = bytearray()

    def __iter__(self) -> Iterator[bytes | None]:
        blocks = iter(self._blocks)
        content, at = b"", 0
        for (size,) in self._sizes:
            if size < 0:
                yield None
                continue
            while len(content) - at < size:
                block = next(blocks, None)
                content, at = content[at:] + (bytes(self._newest) if block is None else zlib.decompress(block)), 0
            yield content[at : at + size]
            at += size

    @property
    def bytes(self) -> int:
        """What the values take in memory."""
        return self._sizes.bytes + sum(map(len, self._blocks)) + len(self._newest)


class Producer(NamedTuple):
    """A producer id with one epoch."""

    producer_id: int
    epoch: int


class Fate(IntEnum):
    """What became of a transaction."""

    VISIBLE = auto()
    ABORTED = auto()
    OPEN = auto()


class Part(NamedTuple):
    """What a transaction has in one partition: its first and last offset, the time of its marker (0 if it is open), its
    records.
    """

    who: Producer
    partition: int
    first: int
    last: int
    time_ms: int
    records: int
    fate: Fate


class PartTable:
    """Parts in little memory: each transaction may have an epoch of its own, and a topic many millions of them."""

    def __init__(self) -> None:
        self._rows = PackedRows(8)

    def add(self, part: Part) -> None:
        self._rows.append(*part.who, *part[1:])

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Part]:
        for producer_id, epoch, partition, first, last, time_ms, records, fate in self._rows:
            yield Part(Producer(producer_id, epoch), partition, first, last, time_ms, records, Fate(fate))

    @property
    def bytes(self) -> int:
        """What the parts take in memory."""
        return self._rows.bytes


@dataclass(slots=True)
class _Open:
    epoch: int
    first: int
    last: int
    records: int = 0

    def part(self, partition: int, producer_id: int, time_ms: int, fate: Fate) -> Part:
        who = Producer(producer_id, self.epoch)
        return Part(who, partition, self.first, self.last, time_ms, self.records, fate)


@dataclass(slots=True)
class TopicTally:
    """One topic, by partition. ends: records from there on do not count, but markers do."""

    ends: Mapping[int, int]
    parts: PartTable = field(default_factory=PartTable)
    plain: int = 0
    """Records without a transaction."""
    gaps: bool = False
    """Whether compaction has removed records."""
    first_marker_ms: dict[int, int] = field(default_factory=dict)
    _open: dict[tuple[int, int], _Open] = field(default_factory=dict)
    _next: dict[int, int] = field(default_factory=dict)

    def take(self, partition: int, batch: Batch) -> None:
        """Apply the next batch of a partition."""
        self._follow(partition, batch)
        if batch.control:
            if batch.marker is not None:
                self._end(partition, batch)
        elif batch.first < self.ends[partition]:
            self._add(partition, batch)

    def _follow(self, partition: int, batch: Batch) -> None:
        next_offset = self._next.get(partition, batch.first)
        if batch.first != next_offset or batch.records != batch.last - batch.first + 1:
            self.gaps = True
        self._next[partition] = batch.last + 1

    def _add(self, partition: int, batch: Batch) -> None:
        if batch.producer_id < 0:
            self.plain += batch.records
            return
        opened = _Open(batch.epoch, batch.first, batch.last)
        transaction = self._open.setdefault((partition, batch.producer_id), opened)
        transaction.records += batch.records
        if batch.epoch == transaction.epoch:
            transaction.last = batch.last
        else:  # a transaction hung there: its records count with these, but another one wrote them
            self.parts.add(opened.part(partition, batch.producer_id, 0, Fate.OPEN))

    def _end(self, partition: int, batch: Batch) -> None:
        self.first_marker_ms.setdefault(partition, batch.timestamp_ms)
        transaction = self._open.pop((partition, batch.producer_id), None)
        if transaction is None:
            return
        fate = Fate.VISIBLE if batch.marker is Marker.COMMIT else Fate.ABORTED
        self.parts.add(transaction.part(partition, batch.producer_id, batch.timestamp_ms, fate))

    def find_undecided(self) -> dict[int, set[int]]:
        """Return the partitions with open transactions, and their producers."""
        producer_ids: dict[int, set[int]] = {}
        for partition, producer_id in self._open:
            producer_ids.setdefault(partition, set()).add(producer_id)
        return producer_ids

    def close(self) -> None:
        """Count everything without a marker as open."""
        for (partition, producer_id), transaction in self._open.items():
            self.parts.add(transaction.part(partition, producer_id, 0, Fate.OPEN))
        self._open = {}


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
class _OpenCommit:
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
    _open: dict[tuple[int, int], _OpenCommit] = field(default_factory=dict)
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
            self._open.setdefault((partition, batch.producer_id), _OpenCommit(batch.epoch)).records += mine

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
