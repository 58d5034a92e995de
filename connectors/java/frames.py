"""Frames between Python and the Java host: the length of the rest (u32, big endian), kind (one byte), payload.

Kind J is a JSON object, kind L a piece of the log, kinds B and R are batches; host/ColumnPacker.java and
host/BatchPacker.java document their layouts. Pure: bytes in, values out.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from ringfence.connectors.api.records import EncodedBatch, EncodedBatches, MixedBatch, RawHeaders

JSON: Final = ord("J")
BATCH: Final = ord("B")
ENCODED: Final = ord("R")
LOG: Final = ord("L")
HEAD: Final = struct.Struct(">IB")

_COMMIT, _ABORT, _KEYS, _PARTITIONS, _TIMES, _HEADERS, _TOPICS = 1, 2, 4, 8, 16, 32, 64
_FIXED: Final = struct.Struct("<QIIII")
_NUMBERED: Final = struct.Struct("<QIII")
_LENGTH: Final = struct.Struct("<i")
_ENCODED: Final = struct.Struct("<iIIIqqI")


@dataclass(frozen=True, slots=True)
class BatchFrame:
    """A batch. number: counts the task's batches; commits, aborts: whether the connector ends its transaction here."""

    number: int
    batch: MixedBatch
    commits: bool = False
    aborts: bool = False


def encode(message: Mapping[str, object]) -> bytes:
    """Return the frame of a JSON message."""
    data = json.dumps(message).encode()
    return HEAD.pack(len(data) + 1, JSON) + data


def decode_batch(buffer: bytes) -> BatchFrame:
    """Decode a batch. Raises ValueError or struct.error for an invalid buffer."""
    with _errors():
        return _decode_batch(buffer)


def _decode_batch(buffer: bytes) -> BatchFrame:
    number, records, flags, skipped, letters = _FIXED.unpack_from(buffer, 0)
    reader = _Reader(buffer, _FIXED.size)
    names = [reader.blob().decode() for _ in range(reader.number())]
    offsets = [(partition, offset) for partition, offset in json.loads(reader.blob())]
    topics: str | list[str] = names[0] if names else ""
    if flags & _TOPICS:
        topics = [names[each] for each in reader.column(records, "i")]
    partitions = reader.column(records, "i") if flags & _PARTITIONS else None
    times = reader.column(records, "q") if flags & _TIMES else None
    value_sizes = reader.column(records, "i")
    key_sizes = reader.column(records, "i") if flags & _KEYS else None
    sets = reader.column(records, "i") if flags & _HEADERS else None
    values = reader.cut(value_sizes)
    keys = None if key_sizes is None else reader.cut(key_sizes)
    headers = None if sets is None else _headers(reader, sets)
    if reader.at != len(buffer):
        raise ValueError(f"a batch of {len(buffer)} bytes ends at {reader.at}")
    batch = MixedBatch(offsets, topics, values, keys, partitions, times, headers, skipped=skipped, letters=letters)
    return BatchFrame(number, batch, bool(flags & _COMMIT), bool(flags & _ABORT))


def decode_encoded(buffer: bytes) -> BatchFrame:
    """Decode record batches. Raises ValueError or struct.error for an invalid buffer."""
    with _errors():
        return _decode_encoded(buffer)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"a batch is malformed ({type(error).__name__})") from error


def _decode_encoded(buffer: bytes) -> BatchFrame:
    number, flags, skipped, letters = _NUMBERED.unpack_from(buffer, 0)
    reader = _Reader(buffer, _NUMBERED.size)
    offsets = [(partition, offset) for partition, offset in json.loads(reader.blob())]
    batches = [reader.record_batch() for _ in range(reader.number())]
    if reader.at != len(buffer):
        raise ValueError(f"record batches of {len(buffer)} bytes end at {reader.at}")
    encoded = EncodedBatches(offsets, batches, skipped=skipped, letters=letters)
    return BatchFrame(number, encoded, bool(flags & _COMMIT), bool(flags & _ABORT))


def _headers(reader: "_Reader", which: Sequence[int]) -> list[RawHeaders | None]:
    sets: list[RawHeaders | None] = [
        [(reader.blob().decode(), reader.optional()) for _ in range(reader.number())] for _ in range(reader.number())
    ]
    sets.append(None)  # for -1, no headers
    return [sets[each] for each in which]


class _Reader:
    def __init__(self, buffer: bytes, at: int) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)
        self.at = at

    def number(self) -> int:
        (value,) = _LENGTH.unpack_from(self._buffer, self.at)
        self.at += 4
        return int(value)

    def blob(self) -> bytes:
        content = self.optional()
        if content is None:
            raise ValueError("null in place of a value")
        return content

    def optional(self) -> bytes | None:
        size = self.number()
        if size < 0:
            return None
        self.at += size
        if self.at > len(self._buffer):
            raise ValueError("the batch is truncated")
        return self._buffer[self.at - size : self.at]

    def column(self, records: int, kind: str) -> list[int]:
        end = self.at + records * (8 if kind == "q" else 4)
        numbers: list[Any] = self._view[self.at : end].cast(kind).tolist()  # type: ignore[call-overload]
        self.at = end
        return numbers

    def record_batch(self) -> EncodedBatch:
        topic = self.blob().decode()
        partition, records, size, crc, first_ms, newest_ms, length = _ENCODED.unpack_from(self._buffer, self.at)
        start = self.at + _ENCODED.size
        self.at = start + length
        if self.at > len(self._buffer):
            raise ValueError("a record batch is truncated")
        return EncodedBatch(topic, partition, records, size, crc, first_ms, newest_ms, self._view[start : self.at])

    def cut(self, sizes: Sequence[int]) -> list[bytes | None]:
        buffer = self._buffer
        if min(sizes, default=0) >= 0:
            ends = list(accumulate(sizes, initial=self.at))
            self.at = ends[-1]
            return [buffer[start:end] for start, end in pairwise(ends)]
        blobs: list[bytes | None] = []
        for size in sizes:
            if size < 0:
                blobs.append(None)
            else:
                blobs.append(buffer[self.at : self.at + size])
                self.at += size
        return blobs
