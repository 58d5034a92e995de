"""Reads the batches of a producer around a moment, in all partitions of some topics, up to a limit of batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.raw_fetch import RawFetcher
from ringfence.fencing.kafka.record_batches import Batch, Marker
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at, offsets_since

SEQUENCES: Final = 2**31


@dataclass(frozen=True, slots=True)
class Segment:
    """The records of one transaction in one partition, from offset `first` to `last`.

    sequence: the sequence number of its first record; numbered: how many records the producer had sent to the partition
    when the transaction ended; marker: how it ended, None while it is open; marker_offset, marker_ms: the marker's
    offset, and the time at which the broker wrote it; has_own_epoch: whether no other transaction has this epoch, since
    the marker has the next one (transactions v2, KIP-890). A segment may begin before the first batch that was read.
    """

    partition: int
    producer_id: int
    epoch: int
    first: int
    last: int
    sequence: int
    count: int
    ranges: Sequence[tuple[int, int]]
    marker: Marker | None = None
    marker_offset: int = -1
    marker_ms: int = -1
    has_own_epoch: bool = False

    @property
    def end_sequence(self) -> int:
        return self.sequence + self.count

    def holds(self, offset: int) -> bool:
        return any(first <= offset <= last for first, last in self.ranges)


class Segments:
    """Folds the batches of one partition, in order, into the segments of one producer id."""

    def __init__(self, partition: int, producer_id: int) -> None:
        self._partition = partition
        self._producer_id = producer_id
        self._open: list[Batch] = []
        self.ended_segments: list[Segment] = []

    def take(self, batch: Batch) -> None:
        if batch.producer_id != self._producer_id:
            return
        if not batch.control:
            self._open.append(batch)
        elif batch.marker is not None and self._open:
            self.ended_segments.append(self._segment(batch))
            self._open = []

    def all(self) -> list[Segment]:
        """Return the segments that have ended, and the open one."""
        return [*self.ended_segments, self._segment(None)] if self._open else list(self.ended_segments)

    def _segment(self, marker: Batch | None) -> Segment:
        first, last = self._open[0], self._open[-1]
        end = number_of(last, last.last) + 1
        if end <= first.sequence:
            end += SEQUENCES  # the sequence numbers have wrapped around
        ending: tuple[Marker | None, int, int, bool] = (None, -1, -1, False)
        if marker is not None:
            ending = marker.marker, marker.first, marker.timestamp_ms, marker.epoch > first.epoch
        ranges = [(each.first, each.last) for each in self._open]
        start = first.sequence
        return Segment(
            self._partition, self._producer_id, first.epoch, first.first, last.last, start, end - start, ranges, *ending
        )


def number_of(batch: Batch, offset: int) -> int:
    """Return the sequence number of the record at this offset. Compaction removes records and keeps their numbers."""
    return (batch.sequence + offset - batch.first) % SEQUENCES


def numbered_at(segments: Iterable[Segment], epoch: int, time_ms: int) -> int | None:
    """Return how many records the producer had sent to this partition when its transactions up to this time had ended.

    None if that is unknown, because there is no segment of this epoch.
    """
    ours = [each for each in segments if each.epoch == epoch]
    before = [each for each in ours if each.marker is not None and each.marker_ms <= time_ms]
    if before:
        return before[-1].end_sequence
    return ours[0].sequence if ours else None


MOST_BATCHES: Final = 200_000
MOST_PARTITIONS: Final = 200


class TooMuch(Retriable):
    """There are more batches than one question may read."""


class SearchEnd(Exception):
    """Raised to end a read, because it has found what it searched."""


def bounds(
    connection: Connection, topic: str, since_ms: int, until_ms: int, deadline: Deadline, partitions: Sequence[int] = ()
) -> tuple[dict[int, int], dict[int, int]]:
    """Return, by partition, the offsets of the first records at or after both times; the end if there are none."""
    numbers = sorted(partitions or topic_identity(connection, topic, Deadline.after(deadline.slice(3.0)))[1])
    if len(numbers) > MOST_PARTITIONS:
        raise TooMuch(f"Topic {topic} has {len(numbers)} partitions: more than {MOST_PARTITIONS} are not searched")
    ends = offsets_at(connection, topic, numbers, OffsetKind.END, deadline)

    def place(time_ms: int) -> dict[int, int]:
        offsets = offsets_since(connection, topic, numbers, max(0, time_ms), deadline)
        return {number: offsets[number] if offsets[number] >= 0 else ends[number] for number in numbers}

    starts, until = place(since_ms), place(until_ms)
    return starts, {number: max(starts[number], until[number]) for number in numbers}


def segments_of(
    connection: Connection,
    topic: str,
    producer_id: int,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    deadline: Deadline,
) -> dict[int, list[Segment]]:
    """Return the producer's segments between these offsets, by partition. Raises `TooMuch`."""
    folds = {number: Segments(number, producer_id) for number in starts}
    read(connection, topic, starts, ends, deadline, lambda number, batch: folds[number].take(batch))
    return {number: each.all() for number, each in folds.items()}


def read(
    connection: Connection,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    deadline: Deadline,
    take: Callable[[int, Batch], None],
) -> None:
    """Call `take` with every batch, until it raises `SearchEnd`."""
    batches = 0

    def count(number: int, batch: Batch) -> None:
        nonlocal batches
        batches += 1
        if batches > MOST_BATCHES:
            raise TooMuch(f"More than {MOST_BATCHES} batches of topic {topic} would have to be read")
        take(number, batch)

    if any(starts[number] < ends[number] for number in starts):
        try:
            with RawFetcher(connection, topic) as fetcher:
                fetcher.read(starts, ends, deadline, count)
        except SearchEnd:
            return
