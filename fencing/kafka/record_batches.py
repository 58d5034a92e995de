"""Parses record batches, and decides which of their records a read_committed reader may see. Pure.

Clients return records without their producer, and no control records, which end transactions. Both are needed to read
a partition beyond its last stable offset (LSO), so this module parses the headers of the batches. Headers and control
records are never compressed; the client reads the records themselves.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from ringfence.fencing.errors import Unreadable

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, first and newest timestamp, producer
# id, producer epoch, base sequence, number of records.
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
Data = bytes | memoryview
_MOST_BITS: Final = 70
"""Ten bytes, of which each has seven."""
_PREFIX: Final = struct.Struct(">qi")
MAGIC_AT: Final = 16
CODEC: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
"""Attributes."""


class Marker(Enum):
    """How a control record ends the open transaction of its producer."""

    ABORT = 0
    COMMIT = 1


class Batch(NamedTuple):
    """The header of one batch; offsets from `first` to `last`, both included.

    producer_id: -1 if the records have no transaction. marker: set for a control batch that ends a transaction. A
    control batch without a marker is neither data nor an end (compaction keeps emptied batches). records: how many it
    still has; timestamp_ms: the newest record's, or the broker's time for a marker.
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
    """The producer's sequence number of its first record, which starts at 0 in each partition."""


def parse(data: Data) -> Iterator[Batch]:
    """Return the batches of a fetch response, without an incomplete last one. Raises `Unreadable` for other bytes."""
    at, size = 0, len(data)
    while size - at > MAGIC_AT:
        base, length = _PREFIX.unpack_from(data, at)
        until = at + _PREFIX.size + length
        if until <= at + MAGIC_AT:
            raise Unreadable("The broker's response is no record batch: its length is impossible")
        if until > size:
            return
        if data[at + MAGIC_AT] < 2:
            # Message sets from before Kafka 0.11, which had no transactions. A compressed one has its last offset.
            yield Batch(base, base)
        else:
            try:
                yield _batch(data, at, until)
            except (struct.error, IndexError, ValueError) as error:
                raise Unreadable("The broker's response is no record batch: it ends too early") from error
        at = until


def _batch(data: Data, at: int, until: int) -> Batch:
    header = HEADER.unpack_from(data, at)
    base, attributes, last_delta, newest_ms, producer_id, epoch, sequence, count = (
        header[n] for n in (0, 5, 6, 8, 9, 10, 11, 12)
    )
    control = bool(attributes & CONTROL)
    return Batch(
        base,
        base + last_delta,
        producer_id if attributes & TRANSACTIONAL else -1,
        epoch,
        control,
        read_marker(data[at + HEADER.size : until]) if control and count > 0 else None,
        max(0, count),
        newest_ms,
        sequence,
    )


def read_marker(record: Data) -> Marker | None:
    """Parse a control record: length, attributes, timestamp and offset delta, then the key: version and type. Return
    None if it ends no transaction.
    """
    _, at = read_varint(record, 0)
    _, at = read_varint(record, at + 1)
    _, at = read_varint(record, at)
    size, at = read_varint(record, at)
    if size < 4:
        return None
    _, kind = struct.unpack_from(">hh", record, at)
    return Marker(kind) if kind in (Marker.ABORT.value, Marker.COMMIT.value) else None


def read_varint(data: Data, at: int) -> tuple[int, int]:
    """Return a signed number of variable length (zigzag), and the position after it. Raises `IndexError`, and
    `ValueError` for more than 64 bits: to read n of them takes n² steps.
    """
    value = shift = 0
    while shift < _MOST_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ValueError("a number has more than 64 bits")


class Decisions:
    """Decides which records of one partition are hidden from a read_committed reader, from its batches in order.

    The first batch must contain or follow some offset at or before the LSO. Then a transaction that began earlier is
    covered, too: nothing before the LSO is undecided, so only its later records and its marker matter.

    The next marker of a producer id decides everything that the id wrote before it, with any epoch: fencing ends a
    transaction with a higher epoch than its records have. Records without a marker are open, and hidden. It keeps the
    hidden ranges, since they are few: millions of records may follow an open transaction.
    """

    def __init__(self) -> None:
        self._aborted_ranges: list[tuple[int, int]] = []
        self._pending: dict[int, list[tuple[int, int]]] = {}
        self.last_visible: int | None = None
        """The offset of the last visible record; None if there is none."""

    def take(self, batch: Batch) -> None:
        """Apply the next batch."""
        if not batch.control:
            if batch.producer_id < 0:
                self._show(batch.last)
            else:
                self._pending.setdefault(batch.producer_id, []).append((batch.first, batch.last))
        elif batch.marker is not None:
            ranges = self._pending.pop(batch.producer_id, None)
            if ranges is None:
                return
            if batch.marker is Marker.ABORT:
                self._aborted_ranges += ranges
            else:
                self._show(ranges[-1][1])

    def _show(self, last: int) -> None:
        self.last_visible = last if self.last_visible is None else max(last, self.last_visible)

    @property
    def open(self) -> dict[int, int]:
        """The producer ids with an open transaction, and its first offset."""
        return {producer_id: ranges[0][0] for producer_id, ranges in self._pending.items()}

    def is_open(self, offset: int) -> bool:
        """Return whether the record at this offset belongs to an open transaction."""
        return any(first <= offset <= last for ranges in self._pending.values() for first, last in ranges)

    def find_hidden(self) -> "HiddenOffsets":
        """Return the offsets of aborted and open transactions."""
        return HiddenOffsets([*self._aborted_ranges, *(one for ranges in self._pending.values() for one in ranges)])


class HiddenOffsets:
    """A set of offsets, given as ranges that do not overlap, both ends included."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        pairs = sorted(ranges)
        self._firsts = [first for first, _ in pairs]
        self._lasts = [last for _, last in pairs]

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[at]
