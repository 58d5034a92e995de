"""Reads one connector's committed transactions from its offsets topic: producer, attempt and counts. Pure.

Each has its attempt's number of committed records so far (`fencing.offsets.record_counts`), so the next transaction of
the same attempt includes one that compaction has removed.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ringfence.fencing.kafka.record_batches import Batch, Marker
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from ringfence.fencing.proof.topic_tally import Producer

Attempt = tuple[int, int, int]
"""Task, generation, attempt."""


class OffsetRecord(NamedTuple):
    """A record of the connector in its offsets topic, with its parsed header."""

    offset: int
    key: bytes | None
    value: bytes | None
    counts: AttemptCounts | None


RecordsByPartition = Mapping[int, Sequence[OffsetRecord]]
"""By partition, in order."""


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

    offset_records: RecordsByPartition
    cut: Mapping[int, int]
    producers: dict[Producer, Attempt] = field(default_factory=dict)
    attempts: dict[Attempt, list[Commit]] = field(default_factory=dict)
    source: list[OffsetRecord] = field(default_factory=list)
    """The records that are committed, in the order of their markers."""
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
        mine = self._mine(partition, batch)
        if mine and batch.producer_id < 0:
            self.source += mine
        elif mine:
            self._open.setdefault((partition, batch.producer_id), _Open(batch.epoch)).records += mine

    def _mine(self, partition: int, batch: Batch) -> Sequence[OffsetRecord]:
        there = self.offset_records.get(partition, ())
        at = bisect_left(there, batch.first, key=lambda each: each.offset)
        return there[at : bisect_left(there, batch.last + 1, at, key=lambda each: each.offset)]

    def _end(self, partition: int, batch: Batch) -> None:
        transaction = self._open.pop((partition, batch.producer_id), None)
        if transaction is None:
            return
        if batch.marker is Marker.ABORT:
            self.aborted += 1
            return
        self.source += transaction.records
        counts = next((each.counts for each in reversed(transaction.records) if each.counts is not None), None)
        if counts is None:
            return
        who, attempt = Producer(batch.producer_id, transaction.epoch), counts.key
        if self.producers.setdefault(who, attempt) != attempt:
            self.strangers.append(who)
        early = batch.first < self.cut.get(partition, 0)
        self.attempts.setdefault(attempt, []).append(Commit(batch.timestamp_ms, counts.counts, early))

    def commits(self, attempt: Attempt) -> list[Commit]:
        """Return an attempt's transactions in the order of their commits: counts never decrease."""
        return sorted(self.attempts.get(attempt, ()), key=lambda each: (each.counts, each.time_ms))
