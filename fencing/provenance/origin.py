"""Finds where a record came from: 1 the producer and the end of its transaction, 2 the transaction's source offsets.

Step 2 reads the offsets topics around the time of the transaction's marker, first in a small window, then in a large
one. It does not find, and reports, what compaction has removed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Invalid, Retriable
from ringfence.fencing.fetching.raw_reader import RawReader
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.record_batches import Batch, Marker
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at, offsets_since
from ringfence.fencing.kafka.topic_records import Limits, Reading, TailRecord
from ringfence.fencing.offsets import record_counts
from ringfence.fencing.offsets.record_counts import AttemptCounts
from ringfence.fencing.offsets.source_offsets import Offset, Partition, canonical, decode_key, decode_value

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
            with RawReader(connection, topic) as fetcher:
                fetcher.read(starts, ends, deadline, count)
        except SearchEnd:
            return


_MARKERS_APART_MS: Final = (0, 1, 2, 3, 5, 8, 13, 21, 50, 100)
"""How far apart the markers of one transaction may be, in ms: they are written at about the same time."""

Where = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class OffsetsSegment:
    """The source offsets of one transaction in one partition of the offsets topic. counts: those that it has."""

    segment: Segment
    counts: AttemptCounts | None

    @property
    def span(self) -> tuple[int, int] | None:
        return None if self.counts is None else self.counts.span


@dataclass(frozen=True, slots=True)
class Match:
    """A match. exact: the numbers prove it; otherwise it is the transaction with the marker closest in time."""

    offsets: OffsetsSegment
    exact: bool


def match(
    record: Segment, candidates: Sequence[OffsetsSegment], segments: Mapping[Where, Sequence[Segment]]
) -> Match | None:
    """segments: of the producer in every partition it may have written to; candidates: of the same producer id."""
    ours = [each for each in candidates if _may_be(each, record)]
    with_span = [each for each in ours if each.span is not None]
    if record.has_own_epoch:
        return Match((with_span or ours)[0], exact=True) if ours else None
    if len(segments) == 1:
        # All that this producer sent is here, so what it had sent when this transaction ended is one number.
        for each in with_span:
            before, after = each.span or (0, 0)
            if before < after and (after - record.end_sequence) % SEQUENCES == 0:
                return Match(each, exact=True)
    nearest = sorted(with_span or ours, key=lambda each: abs(each.segment.marker_ms - record.marker_ms))
    for each in nearest[:3]:
        if each.span is not None and _adds_up(record, each.span[1], segments):
            return Match(each, exact=True)
    return Match(nearest[0], exact=False) if nearest else None


def _may_be(each: OffsetsSegment, record: Segment) -> bool:
    return each.segment.epoch == record.epoch and each.segment.marker is record.marker


def _adds_up(record: Segment, after: int, segments: Mapping[Where, Sequence[Segment]]) -> bool:
    """Return whether the record's producer had sent `after` records when its transaction ended, over all partitions."""
    return any(total_at(segments, record.epoch, record.marker_ms + late) == after for late in _MARKERS_APART_MS)


def total_at(by_place: Mapping[Where, Sequence[Segment]], epoch: int, time_ms: int) -> int | None:
    """Return the number of records over all partitions; None if it is unknown for one of them."""
    numbers = [numbered_at(segments, epoch, time_ms) for segments in by_place.values()]
    totals = [each for each in numbers if each is not None]
    return sum(totals) if len(totals) == len(numbers) else None


def companions(main: OffsetsSegment, candidates: Iterable[OffsetsSegment]) -> list[OffsetsSegment]:
    """Return the source offsets of the same transaction in other partitions of the offsets topic: those nearest in
    time."""
    by_partition: dict[int, list[OffsetsSegment]] = {}
    ours = main.segment
    late = inf if ours.has_own_epoch else 1
    for each in candidates:
        one = each.segment
        alike = one.epoch == ours.epoch and one.marker is Marker.COMMIT
        if alike and one.partition != ours.partition and each.counts is None:
            by_partition.setdefault(one.partition, []).append(each)
    nearest = (min(ones, key=lambda one: abs(one.segment.marker_ms - ours.marker_ms)) for ones in by_partition.values())
    return [each for each in nearest if abs(each.segment.marker_ms - ours.marker_ms) <= late]


def data_of(
    offsets: OffsetsSegment, by_place: Mapping[Where, Sequence[Segment]]
) -> tuple[list[tuple[str, Segment]], bool]:
    """Return the records of a transaction with these offsets, and whether the numbers prove that these are all."""
    epoch, marker = offsets.segment.epoch, offsets.segment.marker
    span = offsets.span
    if offsets.segment.has_own_epoch:
        own = [(where[0], one) for where, segments in by_place.items() for one in segments if one.epoch == epoch]
        return own, span is not None and sum(one.count for _, one in own) == span[1] - span[0]
    if span is not None and len(by_place) == 1:
        ((where, segments),) = by_place.items()
        segments_of_data = [
            (where[0], one) for one in segments if one.epoch == epoch and span[0] < one.end_sequence <= span[1]
        ]
        return segments_of_data, sum(one.count for _, one in segments_of_data) == span[1] - span[0]
    for late in _MARKERS_APART_MS:
        near = [
            (topic, one)
            for (topic, _), segments in by_place.items()
            for one in segments
            if one.epoch == epoch and one.marker is marker and abs(one.marker_ms - offsets.segment.marker_ms) <= late
        ]
        if span is None:
            if near:
                return near, False
        elif sum(one.count for _, one in near) == span[1] - span[0]:
            exact = len({(topic, one.partition) for topic, one in near}) == len(near)
            return near, exact
    return near, False


WINDOWS_MS: Final = (3_000, 60_000, 600_000)
_MOST_OFFSETS: Final = 10_000
_NEIGHBOURS_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer of a record. segment: its transaction's part of the partition; None without a transaction."""

    producer_id: int
    epoch: int
    number: int
    segment: Segment | None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A source offset that a transaction committed. before: the previous one of its source partition, if it still
    exists."""

    topic: str
    kafka_partition: int
    kafka_offset: int
    connector: str
    partition: Partition
    offset: Offset | None
    before: Offset | None


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction, with connector, task, generation and attempt; -1 if an earlier version or Kafka Connect wrote it.

    exact: the numbers of brokers and tasks prove it; otherwise it is the nearest in time.
    """

    connector: str
    task: int
    generation: int
    attempt: int
    exact: bool
    offsets: Sequence[CommittedOffset]


def find_producer(connection: Connection, topic: str, partition: int, offset: int, deadline: Deadline) -> Producer:
    """Return the producer of a record. Raises `Invalid` if there is no such record."""
    _, partitions = topic_identity(connection, topic, Deadline.after(deadline.slice(3.0)))
    if partition not in partitions:
        raise Invalid(f"Topic {topic} has no partition {partition}")
    first = offsets_at(connection, topic, [partition], OffsetKind.FIRST, deadline)[partition]
    end = offsets_at(connection, topic, [partition], OffsetKind.END, deadline)[partition]
    if not first <= offset < end:
        raise Invalid(f"Partition {topic}-{partition} has offsets {first} to {end - 1} only")
    holding: list[Batch] = []
    folds: list[Segments] = []

    def take(_: int, batch: Batch) -> None:
        if not holding:
            holding.append(batch)
            folds.append(Segments(partition, batch.producer_id))
        folds[0].take(batch)
        if holding[0].producer_id < 0 or folds[0].ended_segments:
            raise SearchEnd

    read(connection, topic, {partition: offset}, {partition: end}, deadline, take)
    if not holding or holding[0].control or not holding[0].first <= offset <= holding[0].last:
        raise Invalid(
            f"There is no record at {topic}-{partition} offset {offset}: it is a marker, or compaction removed it"
        )
    batch = holding[0]
    if batch.producer_id < 0:
        return Producer(-1, -1, -1, None)
    return Producer(batch.producer_id, batch.epoch, number_of(batch, offset), folds[0].all()[0])


def find_transaction(
    producer: Producer,
    data: tuple[Connection, Sequence[str]],
    offsets_topics: Sequence[tuple[Connection, str]],
    deadline: Deadline,
) -> Transaction | None:
    """Return the transaction with its source offsets; None if none are found. data: the connector's target topics."""
    segment = producer.segment
    if segment is None or segment.marker is not Marker.COMMIT:
        return None
    segments: Mapping[Where, Sequence[Segment]] | None = None
    for reach in WINDOWS_MS:
        for connection, topic in offsets_topics:
            candidates = read_offsets_segments(
                connection, topic, producer.producer_id, segment.marker_ms, reach, deadline
            )
            if not candidates:
                continue
            if segments is None:
                segments = find_producer_segments(data, producer.producer_id, segment.marker_ms, deadline)
            heads = [each for each, _ in candidates]
            pair = match(segment, heads, segments)
            if pair is not None and (pair.exact or reach == WINDOWS_MS[-1] or _is_near(pair.offsets, segment)):
                return _put_together(topic, pair.offsets, pair.exact, candidates)
        if deadline.expired:
            break
    return None


def _is_near(offsets: OffsetsSegment, record: Segment) -> bool:
    return abs(offsets.segment.marker_ms - record.marker_ms) <= 100


def find_producer_segments(
    data: tuple[Connection, Sequence[str]], producer_id: int, time_ms: int, deadline: Deadline
) -> dict[Where, Sequence[Segment]]:
    """Return the producer's segments in every partition of the connector's topics, around this time.

    A topic that cannot be read has no segments, so the numbers cannot match, and no result is called exact.
    """
    connection, topics = data
    segments_by_place: dict[Where, Sequence[Segment]] = {}
    for topic in topics:
        try:
            starts, ends = bounds(connection, topic, time_ms - _NEIGHBOURS_MS, time_ms + _NEIGHBOURS_MS, deadline)
            if len(topics) == 1 and len(starts) == 1:
                return {(topic, next(iter(starts))): []}  # nothing is to be added up
            segments = segments_of(connection, topic, producer_id, starts, ends, deadline)
        except FencingError:
            segments_by_place[topic, -1] = []
        else:
            segments_by_place |= {(topic, number): each for number, each in segments.items()}
    return segments_by_place


Candidate = tuple[OffsetsSegment, Sequence[TailRecord]]


def read_offsets_segments(
    connection: Connection, topic: str, producer_id: int, time_ms: int, reach_ms: int, deadline: Deadline
) -> list[Candidate]:
    """Return the producer's transactions in the offsets topic around this time, each with its records there."""
    starts, ends = bounds(connection, topic, time_ms - reach_ms, time_ms + reach_ms, deadline)
    segments = segments_of(connection, topic, producer_id, starts, ends, deadline)
    infos = [each for ones in segments.values() for each in ones]
    if not infos:
        return []
    places = {
        number: (min(each.first for each in ones), max(each.last for each in ones))
        for number, ones in segments.items()
        if ones
    }
    by_partition = {number: ones for number, ones in segments.items() if ones}

    def ours(partition: int, offset: int, _: object) -> bool:
        return any(each.holds(offset) for each in by_partition[partition])

    limits = Limits(records=_MOST_OFFSETS, size=1024 * 1024, keep=ours, headers=100)
    reading = Reading(connection, topic, "read_uncommitted", limits)
    if not reading.run({n: at[0] for n, at in places.items()}, {n: at[1] + 1 for n, at in places.items()}, deadline):
        raise Retriable(f"Topic {topic} could not be read in time. Ask again")
    records = sorted(reading.records, key=lambda one: (one.partition, one.offset))
    candidates: list[Candidate] = []
    for each in infos:
        inside = [one for one in records if one.partition == each.partition and each.holds(one.offset)]
        counts = [record_counts.decode([(name, value) for name, value, _ in one.headers]) for one in inside]
        candidates.append((OffsetsSegment(each, next((one for one in counts if one is not None), None)), inside))
    return candidates


def _put_together(topic: str, main: OffsetsSegment, exact: bool, candidates: Sequence[Candidate]) -> Transaction | None:
    heads = [each for each, _ in candidates]
    parts = [main, *companions(main, heads)]
    offsets = [
        _read_committed_offset(topic, record, candidates)
        for segment, records in candidates
        if segment in parts
        for record in records
    ]
    present = [each for each in offsets if each is not None]
    if not present:
        return None
    counts = main.counts
    numbers = (counts.task, counts.generation, counts.attempt) if counts else (-1, -1, -1)
    return Transaction(present[0].connector, *numbers, exact, present)


def _read_committed_offset(topic: str, record: TailRecord, candidates: Sequence[Candidate]) -> CommittedOffset | None:
    key_parts = decode_key(record.key)
    if key_parts is None:
        return None
    connector, partition = key_parts
    before = [
        one
        for segment, records in candidates
        if segment.segment.partition == record.partition
        for one in records
        if one.offset < record.offset and _same(one.key, connector, partition)
    ]
    last = max(before, key=lambda one: one.offset, default=None)
    return CommittedOffset(
        topic,
        record.partition,
        record.offset,
        connector,
        partition,
        decode_value(record.value),
        decode_value(last.value) if last is not None else None,
    )


def _same(key: bytes | None, connector: str, partition: Partition) -> bool:
    key_parts = decode_key(key)
    return key_parts is not None and key_parts[0] == connector and canonical(key_parts[1]) == canonical(partition)
