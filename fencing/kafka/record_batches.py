"""Record batches as they stand in a partition, and which of their records a read_committed reader may see. Pure.

Clients hand out records without their producer and without the control records that end transactions. Both are needed
where a partition is read beyond its last stable offset (LSO), so the headers of the batches are read here. Headers and
control records are never compressed; the records themselves are left to the client.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, first and newest timestamp, producer
# id, producer epoch, base sequence, number of records.
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX: Final = struct.Struct(">qi")
_MAGIC_AT: Final = 16
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class Marker(Enum):
    """How a control record ends the open transaction of its producer."""

    ABORT = 0
    COMMIT = 1


class Batch(NamedTuple):
    """The header of one batch; offsets from `first` to `last`, both included.

    producer_id: -1 where the records belong to no transaction. marker: set where the batch is a control batch that ends
    one. A control batch without a marker is neither data nor an end (compaction keeps emptied batches). records: how
    many it still holds; timestamp_ms: its newest one's, that of the broker's clock for a marker.
    """

    first: int
    last: int
    producer_id: int = -1
    epoch: int = -1
    control: bool = False
    marker: Marker | None = None
    records: int = 1
    timestamp_ms: int = -1
    sequence: int = -1
    """The producer's number of its first record, counted for each partition from 0 on."""


def parse(data: bytes) -> Iterator[Batch]:
    """The batches of a fetch response. The last one may be cut off; then it is left out."""
    at, size = 0, len(data)
    while size - at > _MAGIC_AT:
        base, length = _PREFIX.unpack_from(data, at)
        until = at + _PREFIX.size + length
        if until > size:
            return
        if data[at + _MAGIC_AT] < 2:
            # Message sets of before Kafka 0.11, which had no transactions. A compressed one carries its last offset.
            yield Batch(base, base)
        else:
            yield _batch(data, at, until)
        at = until


def _batch(data: bytes, at: int, until: int) -> Batch:
    header = _HEADER.unpack_from(data, at)
    base, attributes, last_delta, newest_ms, producer_id, epoch, sequence, count = (
        header[n] for n in (0, 5, 6, 8, 9, 10, 11, 12)
    )
    control = bool(attributes & _CONTROL)
    return Batch(
        base,
        base + last_delta,
        producer_id if attributes & _TRANSACTIONAL else -1,
        epoch,
        control,
        _marker(data[at + _HEADER.size : until]) if control and count > 0 else None,
        max(0, count),
        newest_ms,
        sequence,
    )


def _marker(record: bytes) -> Marker | None:
    """From a control record: length, attributes, timestamp and offset delta, then the key: version and type."""
    _, at = _varint(record, 0)
    _, at = _varint(record, at + 1)
    _, at = _varint(record, at)
    size, at = _varint(record, at)
    if size < 4:
        return None
    _, kind = struct.unpack_from(">hh", record, at)
    return Marker(kind) if kind in (Marker.ABORT.value, Marker.COMMIT.value) else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


class Decisions:
    """Which records of one partition are hidden from a read_committed reader, folded from its batches in order.

    The first batch given must hold or follow some offset at or before the LSO. Then a transaction that began before
    it is covered, too: before the LSO nothing is undecided, so of such a one only the later records and the marker are
    met here.

    The next marker of a producer id decides over all that the id wrote before it, whatever the epochs: a fence ends a
    transaction under a higher epoch than the one that wrote it. What no marker decides is open, and hidden. Hidden
    ranges are kept and not the visible ones, as those are few: a transaction may stay open beside millions of records.
    """

    def __init__(self) -> None:
        self._aborted: list[tuple[int, int]] = []
        self._pending: dict[int, list[tuple[int, int]]] = {}
        self.last_visible: int | None = None
        """The offset of the last visible record; None where there is none."""

    def take(self, batch: Batch) -> None:
        """The next batch."""
        if not batch.control:
            if batch.producer_id < 0:
                self._show(batch.last)
            else:
                self._pending.setdefault(batch.producer_id, []).append((batch.first, batch.last))
        elif batch.marker is not None:
            ended = self._pending.pop(batch.producer_id, None)
            if ended is None:
                return
            if batch.marker is Marker.ABORT:
                self._aborted += ended
            else:
                self._show(ended[-1][1])

    def _show(self, last: int) -> None:
        self.last_visible = last if self.last_visible is None else max(last, self.last_visible)

    @property
    def open(self) -> dict[int, int]:
        """The producer ids whose transaction no marker has ended, and the first offset of each."""
        return {producer_id: ranges[0][0] for producer_id, ranges in self._pending.items()}

    def is_open(self, offset: int) -> bool:
        """Whether the record there belongs to a transaction that no marker has ended."""
        return any(first <= offset <= last for ranges in self._pending.values() for first, last in ranges)

    def find_hidden(self) -> "Hidden":
        """What is aborted, and what is open."""
        return Hidden([*self._aborted, *(one for ranges in self._pending.values() for one in ranges)])


class Hidden:
    """A set of offsets, given as ranges that do not overlap, both ends included."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(ranges)
        self._firsts = [first for first, _ in ordered]
        self._lasts = [last for _, last in ordered]

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[at]
