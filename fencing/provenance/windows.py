"""Reads the batches of a producer around a moment, in all partitions of some topics, up to a limit of batches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.raw_fetch import RawFetcher
from ringfence.fencing.kafka.record_batches import Batch
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at, offsets_since
from ringfence.fencing.provenance.segments import Segment, Segments

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
