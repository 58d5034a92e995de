"""Finds the records that were committed with a source offset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.record_batches import Batch
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at
from ringfence.fencing.kafka.topic_records import Limits, MetRecord, Reading, TailRecord
from ringfence.fencing.offsets import record_counts
from ringfence.fencing.offsets.record_counts import AttemptCounts
from ringfence.fencing.offsets.source_offsets import Offset, Partition, canonical, decode_key, decode_value
from ringfence.fencing.provenance.origin import (
    WINDOWS_MS,
    OffsetsSegment,
    SearchEnd,
    Segment,
    Segments,
    Where,
    bounds,
    data_of,
    read,
    read_offsets_segments,
    segments_of,
)


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Records of one partition, with both offsets. Records of other transactions may be in between."""

    topic: str
    partition: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class CommittedRecords:
    """The records. exact: the numbers prove that these are all records of the transaction, and no others."""

    topic: str
    kafka_partition: int
    kafka_offset: int
    producer_id: int
    epoch: int
    task: int
    generation: int
    exact: bool
    records: Sequence[RecordRange]


def find_records(
    connector: str,
    partition: Partition,
    offset: Offset,
    time_ms: int,
    offsets_topic: tuple[Connection, str],
    data: tuple[Connection, Sequence[str]],
    deadline: Deadline,
) -> CommittedRecords | None:
    """Return the records; None if the offset's record is no longer in its topic. time_ms: the time of that record."""
    connection, topic = offsets_topic
    record = _find_offset(connection, topic, connector, partition, offset, time_ms, deadline)
    if record is None:
        return None
    segment, counts = _transaction_of(connection, topic, record, deadline)
    numbers = (counts.task, counts.generation) if counts else (-1, -1)
    place = (topic, record.partition, record.offset)
    if segment is None:
        return CommittedRecords(*place, -1, -1, *numbers, False, [])
    whole = OffsetsSegment(segment, counts)
    segments: list[tuple[str, Segment]] = []
    exact = False
    for reach in WINDOWS_MS:
        segments, exact = data_of(whole, _find_segments(data, segment, reach, deadline))
        if exact or deadline.expired:
            break
    ranges = [RecordRange(name, one.partition, one.first, one.last, one.count) for name, one in segments]
    ranges.sort(key=lambda one: (one.topic, one.partition))
    return CommittedRecords(*place, segment.producer_id, segment.epoch, *numbers, exact, ranges)


def _find_segments(
    data: tuple[Connection, Sequence[str]], offsets: Segment, reach_ms: int, deadline: Deadline
) -> Mapping[Where, Sequence[Segment]]:
    """Return the producer's segments. A transaction may take long, and its records come before the marker."""
    connection, topics = data
    segments_by_place: dict[Where, Sequence[Segment]] = {}
    for topic in topics:
        try:
            at = offsets.marker_ms
            starts, ends = bounds(connection, topic, at - reach_ms, at + min(reach_ms, 10_000), deadline)
            segments = segments_of(connection, topic, offsets.producer_id, starts, ends, deadline)
        except FencingError:
            continue
        segments_by_place |= {(topic, number): each for number, each in segments.items()}
    return segments_by_place


def _find_offset(
    connection: Connection,
    topic: str,
    connector: str,
    partition: Partition,
    offset: Offset,
    time_ms: int,
    deadline: Deadline,
) -> TailRecord | None:
    """Return the newest record of this source partition and source offset around this time."""
    target = (connector, canonical(partition), canonical(offset))
    starts, ends = bounds(connection, topic, time_ms - 1_000, time_ms + 1_000, deadline)

    def same(key: bytes | None, value: bytes | None) -> bool:
        key_parts, offset = decode_key(key), decode_value(value)
        return (
            key_parts is not None
            and offset is not None
            and (key_parts[0], canonical(key_parts[1]), canonical(offset)) == target
        )

    def test(records: Sequence[MetRecord]) -> list[bool]:
        return [same(each.key, each.value) for each in records]

    limits = Limits(size=1024 * 1024, headers=100, test=test)
    reading = Reading(connection, topic, "read_committed", limits)
    if not reading.run(starts, ends, deadline) and not reading.records:
        raise Retriable(f"Topic {topic} could not be read in time. Ask again")
    return max(reading.records, key=lambda one: one.offset, default=None)


def _transaction_of(
    connection: Connection, topic: str, record: TailRecord, deadline: Deadline
) -> tuple[Segment | None, AttemptCounts | None]:
    """Return the transaction of the record, and its counts; None without a transaction."""
    folds: list[Segments] = []

    def take(_: int, batch: Batch) -> None:
        if not folds:
            folds.append(Segments(record.partition, batch.producer_id))
        folds[0].take(batch)
        if batch.producer_id < 0 or folds[0].ended_segments:
            raise SearchEnd

    end = offsets_at(connection, topic, [record.partition], OffsetKind.END, deadline)
    read(connection, topic, {record.partition: record.offset}, end, deadline, take)
    if not folds or not folds[0].ended_segments:
        return None, None
    segment = folds[0].ended_segments[0]
    counts = record_counts.decode([(name, value) for name, value, _ in record.headers])
    if counts is None:  # the last source offset of the transaction has it, which may be in another partition
        near = read_offsets_segments(connection, topic, segment.producer_id, segment.marker_ms, WINDOWS_MS[0], deadline)
        others = [each for each, _ in near if each.counts and abs(each.segment.marker_ms - segment.marker_ms) <= 1]
        counts = others[0].counts if len(others) == 1 else None
    return segment, counts
