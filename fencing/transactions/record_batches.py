"""Encodes record batches of Kafka's format (magic 2) from columns of values. Pure.

Most of a record's bytes depend on few numbers only: the lengths of key and value, and its place in the batch. Tables
have them ready, so that the interpreter does nothing for each record: `map` looks up the parts, and one `join` copies
them. The head is added when a batch is sent, since only then its sequence number is known.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, repeat
from operator import add
from typing import Final

import google_crc32c

from ringfence.connectors.api.records import EncodedBatch, RawHeaders
from ringfence.fencing.kafka.record_batches import CODEC, TRANSACTIONAL, read_varint
from ringfence.fencing.transactions.compression import BY_NUMBER, CODECS
from ringfence.fencing.transactions.record_columns import OnWritten

_POLYNOMIAL: Final = 0x82F63B78

Matrix = list[int]
"""A linear map of checksums; its columns, of 32 bits each."""
Table = Sequence[int]
Tables = tuple[Table, Table, Table, Table]
"""The same, for each value of each of the four bytes."""


def combine(first: int, second: int, size: int) -> int:
    """Return the CRC-32C of two parts from those of each. size: of the second one, in bytes."""
    number = 0
    while size:
        if size & 1:
            one, two, three, four = _tables(number)
            first = one[first & 255] ^ two[first >> 8 & 255] ^ three[first >> 16 & 255] ^ four[first >> 24]
        size >>= 1
        number += 1
    return first ^ second


def remove_first(whole: int, first: int, size: int) -> int:
    """Return the CRC-32C of the second part from those of both together and of the first. size: of the second one."""
    return combine(first, whole, size)


@cache
def _tables(number: int) -> Tables:
    """Return what 2**number zero bytes after the data do to its checksum."""
    columns = _zero_bytes(number)
    first, second, third, fourth = (_table(columns[start : start + 8]) for start in (0, 8, 16, 24))
    return first, second, third, fourth


def _table(columns: Matrix) -> Table:
    table = array("I", [0])
    for column in columns:
        table.extend([each ^ column for each in table])
    return table


@cache
def _zero_bytes(number: int) -> Matrix:
    if number:
        return _square(_zero_bytes(number - 1))
    matrix = [_POLYNOMIAL, *(1 << bit for bit in range(31))]  # one bit
    for _ in range(3):
        matrix = _square(matrix)
    return matrix


def _square(matrix: Matrix) -> Matrix:
    return [_apply(matrix, column) for column in matrix]


def _apply(matrix: Matrix, vector: int) -> int:
    result, column = 0, 0
    while vector:
        if vector & 1:
            result ^= matrix[column]
        vector >>= 1
        column += 1
    return result


# Base offset, length of the rest, leader epoch, magic, CRC.
_BEFORE: Final = struct.Struct(">qiibI")
# What the checksum covers: attributes, last offset delta, first and newest timestamp, producer id and epoch, sequence
# number of the first record, number of records.
_COVERED: Final = struct.Struct(">hiqqqhii")
_AFTER_LENGTH: Final = 9
_MAGIC: Final = 2
_NO_LEADER_EPOCH: Final = -1
_NONE: Final = b"\x01"
"""The length -1, of a null."""
_MOST_SIZES: Final = 20_000
SEQUENCES: Final = 2**31
"""After the largest sequence number comes 0."""
HEAD_BYTES: Final = _BEFORE.size + _COVERED.size
RECORD_OVERHEAD: Final = 16
"""More than a record's own bytes beside key, value and headers: lengths, attributes, deltas."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A batch without its head. count: of the records; first_ms, newest_ms: timestamps of the first and the newest;
    attributes: the codec; data: the records, compressed if the codec says so; reports: empty, or for each record what
    is called when it is written, with the record's time; crc: the CRC-32C of `data`, if it is known.
    """

    count: int
    first_ms: int
    newest_ms: int
    attributes: int
    data: bytes
    reports: Sequence[tuple[OnWritten | None, int]] = ()
    crc: int | None = None

    @classmethod
    def of(cls, batch: EncodedBatch, compression: str = "none", level: int | None = None) -> "RecordBatch":
        """Return records that are encoded already. They are compressed here unless they are, with any codec."""
        if compression == "none" or batch.codec:
            data = bytes(batch.data)
            return cls(batch.records, batch.first_ms, batch.newest_ms, batch.codec, data, crc=batch.crc)
        codec = CODECS[compression]
        data = codec.compress(bytes(batch.data), level)
        return cls(batch.records, batch.first_ms, batch.newest_ms, codec.number, data)

    @property
    def size(self) -> int:
        """The bytes of the whole batch."""
        return HEAD_BYTES + len(self.data)

    @property
    def is_damaged(self) -> bool:
        """Whether the records are others than those that the checksum is of, which came with them."""
        return self.crc is not None and google_crc32c.value(self.data) != self.crc

    def report(self, partition: int, offset: int, append_ms: int) -> None:
        """Report that the batch is written. offset: of its first record, -1 if it is not known; append_ms: when the
        leader wrote it, if the topic keeps that as the records' time, else -1.
        """
        for number, (on_written, time_ms) in enumerate(self.reports):
            if on_written is not None:
                on_written(partition, -1 if offset < 0 else offset + number, time_ms if append_ms < 0 else append_ms)

    def head(self, producer_id: int, epoch: int, sequence: int) -> bytes:
        """Return what stands before `data` in a transaction. sequence: of the first record, in its partition."""
        covered = _COVERED.pack(
            self.attributes | TRANSACTIONAL,
            self.count - 1,
            self.first_ms,
            self.newest_ms,
            producer_id,
            epoch,
            sequence,
            self.count,
        )
        crc = google_crc32c.value(covered)
        crc = google_crc32c.extend(crc, self.data) if self.crc is None else combine(crc, self.crc, len(self.data))
        return _BEFORE.pack(0, _AFTER_LENGTH + len(covered) + len(self.data), _NO_LEADER_EPOCH, _MAGIC, crc) + covered


def _varint(value: int) -> bytes:
    """Return a signed number of variable length."""
    left, out = (value << 1) ^ (value >> 63), bytearray()
    while left & ~0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


class _Table(dict[int, bytes]):
    """The varints of numbers, in `before` and `after`; filled when they are first asked for."""

    def __init__(self, before: bytes, after: bytes) -> None:
        super().__init__()
        self._before = before
        self._after = after

    def __missing__(self, number: int) -> bytes:
        encoded = self._before + _varint(number) + self._after
        if len(self) < _MOST_SIZES:
            self[number] = encoded
        return encoded


class _Sizes(dict[int, int]):
    """The bytes that a key or a value of some length takes with its length before it."""

    def __missing__(self, length: int) -> int:
        size = len(_varint(length)) + max(0, length)
        if len(self) < _MOST_SIZES:
            self[length] = size
        return size


# A record: its length, attributes 0, timestamp delta, offset delta, key, value, number of headers. Where no record has
# headers, the 0 that ends a record and the first bytes of the next are in one part.
_STARTS: Final = _Table(b"\0", b"\0\0")
_TIMED_STARTS: Final = _Table(b"\0", b"\0")
_STARTS_BEFORE_HEADERS: Final = _Table(b"", b"\0\0")
_TIMED_STARTS_BEFORE_HEADERS: Final = _Table(b"", b"\0")
_TIMES: Final = _Table(b"", b"")
_VALUE_LENGTHS: Final = _Table(b"", b"")
_NO_KEY_LENGTHS: Final = _Table(_NONE, b"")
_SIZES: Final = _Sizes()
_DELTAS: Final[list[bytes]] = []
_BETWEEN: Final[dict[int, list[bytes]]] = {}
"""What stands before each value of a batch, by the one length of its values; those used last are at the end."""
_MOST_LENGTHS: Final = 4
# The offset deltas at which the varint gets longer.
_STEPS: Final = (0, 64, 8192, 1_048_576, 134_217_728)
_FIXED: Final = 4
"""Attributes, and one byte each for what no record of a batch has: timestamp delta, key, headers."""


def encode(
    values: Sequence[bytes | None],
    now_ms: int,
    keys: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | None = None,
    headers: Sequence[RawHeaders | None] | None = None,
    compression: str = "none",
    level: int | None = None,
    on_written: Sequence[OnWritten | None] | None = None,
) -> RecordBatch:
    """Encode records, at least one. keys, timestamps, headers, on_written: None, or one for each value.

    now_ms: the time of records without their own (0 or less). level: of the codec, None for its default.
    """
    count = len(values)
    first_ms = newest_ms = now_ms
    deltas: Sequence[int] | None = None
    if timestamps is not None and timestamps[0] > 0 and timestamps.count(timestamps[0]) == count:
        first_ms = newest_ms = timestamps[0]
    elif timestamps is not None:
        if min(timestamps) <= 0:
            timestamps = [each if each > 0 else now_ms for each in timestamps]
        first_ms, newest_ms = timestamps[0], max(timestamps)
        if first_ms < newest_ms or min(timestamps) < first_ms:
            deltas = [each - first_ms for each in timestamps]
    data = _encode_columns(values, keys, deltas, headers)
    reports = () if on_written is None else list(zip(on_written, timestamps or [now_ms] * count, strict=True))
    if compression == "none":
        return RecordBatch(count, first_ms, newest_ms, 0, data, reports)
    codec = CODECS[compression]
    return RecordBatch(count, first_ms, newest_ms, codec.number, codec.compress(data, level), reports)


def _encode_columns(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    times: Sequence[int] | None,
    headers: Sequence[RawHeaders | None] | None,
) -> bytes:
    """times: of each record, less the first one's; None for none."""
    if len(values) == 1:
        return _encode_record(0, 0, keys[0] if keys else None, values[0], headers[0] if headers else None)
    lengths, values = _lengths_of(values)
    if keys is None and times is None and headers is None and len(set(lengths)) == 1:
        return _encode_equal_lengths(lengths[0], values)
    sizes: Iterable[int] = map(_SIZES.__getitem__, lengths)
    columns: list[Iterable[bytes]] = [_deltas(len(values))]
    fixed = _FIXED
    if times is not None:
        parts = list(map(_TIMES.__getitem__, times))
        columns.insert(0, parts)
        sizes = map(add, sizes, map(len, parts))
        fixed -= 1
    if keys is None:
        columns.append(map(_NO_KEY_LENGTHS.__getitem__, lengths))
    else:
        key_lengths, keys = _lengths_of(keys)
        sizes = map(add, sizes, map(_SIZES.__getitem__, key_lengths))
        columns += (map(_VALUE_LENGTHS.__getitem__, key_lengths), keys, map(_VALUE_LENGTHS.__getitem__, lengths))
        fixed -= 1
    columns.append(values)
    if headers is None:
        starts = _STARTS if times is None else _TIMED_STARTS
    else:
        starts = _STARTS_BEFORE_HEADERS if times is None else _TIMED_STARTS_BEFORE_HEADERS
        parts = [_encode_headers(each) if each else b"\0" for each in headers]
        columns.append(parts)
        sizes = map(add, sizes, map(len, parts))
        fixed -= 1
    columns.insert(0, map(starts.__getitem__, _body_sizes(list(sizes), fixed)))
    joined = _interleave(columns, len(values))
    if headers is None:
        joined[0] = joined[0][1:]  # no record ends before the first one
        joined.append(b"\0")
    return b"".join(joined)


def _interleave(columns: Sequence[Iterable[bytes]], rows: int) -> list[bytes]:
    """Return the first value of each column, the second of each, and so on."""
    width = len(columns)
    joined: list[bytes] = [b""] * (width * rows)
    for number, column in enumerate(columns):
        joined[number::width] = column
    return joined


def _encode_equal_lengths(length: int, values: Sequence[bytes]) -> bytes:
    """Do the same with values of one length and no keys: all that is between them is the same in each batch."""
    between = _BETWEEN.pop(length, [])
    if len(between) < len(values):
        sizes = _body_sizes([_SIZES[length]] * len(values), _FIXED)
        after = _NO_KEY_LENGTHS[length]
        between = [_STARTS[size] + delta + after for size, delta in zip(sizes, _deltas(len(values)), strict=True)]
    for oldest in list(_BETWEEN)[: 1 - _MOST_LENGTHS]:
        _BETWEEN.pop(oldest, None)
    _BETWEEN[length] = between
    parts: list[bytes] = [b""] * (2 * len(values))
    parts[0::2] = between[: len(values)]
    parts[1::2] = values
    parts[0] = parts[0][1:]  # no record ends before the first one
    parts.append(b"\0")
    return b"".join(parts)


def _lengths_of(column: Sequence[bytes | None]) -> tuple[Sequence[int], Sequence[bytes]]:
    """Return the lengths, -1 for None, and the bytes."""
    try:
        return list(map(len, column)), column  # type: ignore[arg-type, return-value]  # None raises a TypeError
    except TypeError:
        return [-1 if each is None else len(each) for each in column], [each or b"" for each in column]


def _body_sizes(sizes: list[int], fixed: int) -> Iterator[int]:
    """Yield the records' lengths: what they hold, and offset deltas that get longer at some places."""
    for width, (start, end) in enumerate(pairwise(_STEPS), fixed + 1):
        if start >= len(sizes):
            return
        yield from map(add, sizes[start:end], repeat(width))


def _deltas(count: int) -> list[bytes]:
    if len(_DELTAS) < count:
        _DELTAS[:] = map(_varint, range(2 * count))  # at once: other threads may do the same
    return _DELTAS[:count]


def _encode_record(
    number: int, time_delta: int, key: bytes | None, value: bytes | None, headers: RawHeaders | None
) -> bytes:
    before = (b"\0", _varint(time_delta), _varint(number), *_nullable(key), *_nullable(value))
    body = b"".join((*before, _encode_headers(headers or ())))
    return _varint(len(body)) + body


def _encode_headers(headers: RawHeaders) -> bytes:
    parts = [_varint(len(headers))]
    for name, content in headers:
        text = name.encode()
        parts += (_varint(len(text)), text, *_nullable(content))
    return b"".join(parts)


def _nullable(data: bytes | None) -> tuple[bytes, ...]:
    return (_NONE,) if data is None else (_varint(len(data)), data)


def split(batch: RecordBatch) -> tuple[RecordBatch, RecordBatch] | None:
    """Return two batches of about half the records each; None if there is only one record."""
    if batch.count < 2:
        return None
    codec = BY_NUMBER.get(batch.attributes & CODEC)
    records = list(_read(codec.decompress(batch.data) if codec else batch.data))
    middle = len(records) // 2
    first, second = _join(batch, records[:middle]), _join(batch, records[middle:])
    if batch.reports:
        first, second = replace(first, reports=batch.reports[:middle]), replace(second, reports=batch.reports[middle:])
    return first, second


def _read(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the timestamp delta of each record, and its bytes after the offset delta."""
    at = 0
    while at < len(data):
        length, at = read_varint(data, at)
        end = at + length
        time_delta, at = read_varint(data, at + 1)
        _, at = read_varint(data, at)
        yield time_delta, data[at:end]
        at = end


def _join(batch: RecordBatch, records: Sequence[tuple[int, bytes]]) -> RecordBatch:
    first = records[0][0]
    parts: list[bytes] = []
    for number, (time_delta, rest) in enumerate(records):
        body = b"".join((b"\0", _varint(time_delta - first), _varint(number), rest))
        parts += (_varint(len(body)), body)
    data = b"".join(parts)
    codec = BY_NUMBER.get(batch.attributes & CODEC)
    return RecordBatch(
        len(records),
        batch.first_ms + first,
        batch.first_ms + max(time_delta for time_delta, _ in records),
        batch.attributes,
        codec.compress(data, None) if codec else data,
    )
