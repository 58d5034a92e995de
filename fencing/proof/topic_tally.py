"""Counts each producer's records in a topic by their outcome, from batch headers, without reading records. Pure.

A transaction is decided by the next marker of its producer id in each partition (`fencing.kafka.record_batches`).
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ringfence.fencing.kafka.record_batches import Batch, Marker


class Producer(NamedTuple):
    """A producer id with one epoch."""

    producer_id: int
    epoch: int


@dataclass(slots=True)
class PartTally:
    """Records by outcome. times, counts: the marker's time and the number of records of each visible part."""

    visible: int = 0
    aborted: int = 0
    open: int = 0
    times: "array[int]" = field(default_factory=lambda: array("q"))
    counts: "array[int]" = field(default_factory=lambda: array("q"))

    def show(self, time_ms: int, records: int) -> None:
        self.visible += records
        self.times.append(time_ms)
        self.counts.append(records)


@dataclass(slots=True)
class _Open:
    epoch: int
    records: int


@dataclass(slots=True)
class TopicTally:
    """One topic, by partition. ends: records from there on do not count, but markers do."""

    ends: Mapping[int, int]
    producers: dict[Producer, PartTally] = field(default_factory=dict)
    spans: dict[tuple[int, Producer], tuple[int, int]] = field(default_factory=dict)
    """The first and the last offset that a producer has written in a partition."""
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
        who = Producer(batch.producer_id, batch.epoch)
        first, _ = self.spans.get((partition, who), (batch.first, 0))
        self.spans[partition, who] = first, batch.last
        transaction = self._open.setdefault((partition, batch.producer_id), _Open(batch.epoch, 0))
        transaction.records += batch.records

    def _end(self, partition: int, batch: Batch) -> None:
        self.first_marker_ms.setdefault(partition, batch.timestamp_ms)
        transaction = self._open.pop((partition, batch.producer_id), None)
        if transaction is None:
            return
        part = self.producers.setdefault(Producer(batch.producer_id, transaction.epoch), PartTally())
        if batch.marker is Marker.COMMIT:
            part.show(batch.timestamp_ms, transaction.records)
        else:
            part.aborted += transaction.records

    def find_undecided(self) -> dict[int, set[int]]:
        """Return the partitions with open transactions, and their producers."""
        producer_ids: dict[int, set[int]] = {}
        for partition, producer_id in self._open:
            producer_ids.setdefault(partition, set()).add(producer_id)
        return producer_ids

    def close(self) -> None:
        """Count everything without a marker as open."""
        for (_, producer_id), transaction in self._open.items():
            self.producers.setdefault(Producer(producer_id, transaction.epoch), PartTally()).open += transaction.records
        self._open = {}
