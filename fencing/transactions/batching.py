"""Gathers single records to record batches, by partition: Java's partitioner, and sticky batches without a key."""

import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from math import inf
from typing import Final

from ringfence.connectors.api.records import RawHeaders
from ringfence.fencing.kafka.partitioner import partition_of
from ringfence.fencing.transactions.messages import Place
from ringfence.fencing.transactions.record_batches import HEAD_BYTES, RECORD_OVERHEAD, RecordBatch, encode

_MOST_KEYS: Final = 1000
_LOOKS_AT_CLOCK: Final = 64
"""After so many records of a batch."""
OnBatch = Callable[[Place, RecordBatch], None]


class _Columns:
    """The records of one partition that are in no batch yet."""

    __slots__ = ("bytes", "headers", "keys", "place", "since", "times", "values")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.since = 0.0
        self.clear()

    def clear(self) -> None:
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None
        self.times: list[int] | None = None
        self.headers: list[RawHeaders | None] | None = None
        self.bytes = HEAD_BYTES

    def add(self, value: bytes | None, key: bytes | None, timestamp: int, headers: RawHeaders | None) -> None:
        earlier = len(self.values)
        self.values.append(value)
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [*[None] * earlier, key]
        if self.times is not None:
            self.times.append(timestamp)
        elif timestamp > 0:
            self.times = [*[0] * earlier, timestamp]
        if self.headers is not None:
            self.headers.append(headers)
        elif headers:
            self.headers = [*[None] * earlier, headers]


def _sizes_of(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[RawHeaders | None] | None,
) -> list[int]:
    """Return no less than what each record takes in a batch."""
    try:
        sizes = [*map(RECORD_OVERHEAD.__add__, map(len, values))]  # type: ignore[arg-type]  # None raises a TypeError
    except TypeError:
        sizes = [RECORD_OVERHEAD + len(each or b"") for each in values]
    if keys is not None:
        sizes = [size + len(key or b"") for size, key in zip(sizes, keys, strict=True)]
    if headers is not None:
        sizes = [size + _size_of_headers(each) for size, each in zip(sizes, headers, strict=True)]
    return sizes


def _size_of_headers(headers: RawHeaders | None) -> int:
    return sum(len(name.encode()) + len(content or b"") + RECORD_OVERHEAD for name, content in headers or ())


def _cut(sizes: Sequence[int], most: int) -> Iterator[int]:
    """Yield where each batch ends. A batch has at least one record."""
    sums = list(accumulate(sizes))
    end = before = 0
    while end < len(sums):
        end = max(end + 1, bisect_right(sums, before + most))
        before = sums[end - 1]
        yield end


class Batching:
    """on_batch: called with each batch that is complete."""

    def __init__(
        self,
        on_batch: OnBatch,
        leaders_of: Callable[[str], list[int]],
        batch_bytes: int,
        compression: str = "none",
        level: int | None = None,
        linger_s: float = inf,
    ) -> None:
        """leaders_of: returns the leader of each of a topic's partitions, -1 for none. batch_bytes: Java's
        `batch.size`, of records that are not compressed yet. linger_s: how long a batch that is not full waits for more
        records; nothing happens to it without a call.
        """
        self._on_batch = on_batch
        self._leaders_of = leaders_of
        self._batch_bytes = batch_bytes
        self._compression = compression
        self._level = level
        self._linger_s = linger_s
        self._columns: dict[Place, _Columns] = {}
        self._sticky: dict[str, int] = {}
        self._partitions: dict[tuple[str, bytes], tuple[int, int]] = {}
        self.bytes = 0
        """Of the records that are in no batch yet."""

    def add(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp: int,
        headers: RawHeaders | None,
    ) -> None:
        """Add a record. partition: -1 for the partitioner's choice; timestamp: 0 for now."""
        if partition < 0:
            partition = self.choose(topic, key)
        place = topic, partition
        columns = self._columns.get(place)
        if columns is None:
            columns = self._columns[place] = _Columns(place)
        size = RECORD_OVERHEAD + len(value or b"") + len(key or b"")
        if headers:
            size += _size_of_headers(headers)
        if columns.values and columns.bytes + size > self._batch_bytes:
            self._complete(columns)
        if not columns.values:
            columns.since = time.monotonic()
        columns.add(value, key, timestamp, headers)
        columns.bytes += size
        self.bytes += size
        if columns.bytes >= self._batch_bytes:
            self._complete(columns)
        elif not len(columns.values) % _LOOKS_AT_CLOCK:
            self.complete_due()

    def add_columns(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        partition: int = -1,
        timestamps: Sequence[int] | None = None,
        headers: Sequence[RawHeaders | None] | None = None,
    ) -> None:
        """Add many records at once, in whole batches. keys, timestamps, headers: None, or one for each value."""
        if partition < 0 and keys is not None:
            no: Iterable[None] = repeat(None)
            rows = zip(values, keys, repeat(-1), timestamps or repeat(0), headers or no, strict=False)
            for row in rows:
                self.add(topic, *row)
            return
        start = 0
        for end in _cut(_sizes_of(values, keys, headers), self._batch_bytes - HEAD_BYTES):
            place = topic, partition if partition >= 0 else self.choose(topic, None)
            waiting = self._columns.get(place)
            if waiting is not None and waiting.values:
                self._complete(waiting)
            part = slice(start, end)
            batch = encode(
                values[part],
                int(time.time() * 1000),
                None if keys is None else keys[part],
                None if timestamps is None else timestamps[part],
                None if headers is None else headers[part],
                self._compression,
                self._level,
            )
            self._sticky.pop(topic, None)
            self._on_batch(place, batch)
            start = end

    def complete_due(self) -> None:
        """Complete the batches that have waited long enough."""
        due = time.monotonic() - self._linger_s
        for columns in self._columns.values():
            if columns.values and columns.since <= due:
                self._complete(columns)

    def flush(self) -> None:
        """Complete all batches."""
        for columns in self._columns.values():
            if columns.values:
                self._complete(columns)

    def clear(self) -> None:
        """Forget all records that are in no batch yet."""
        self._columns.clear()
        self.bytes = 0

    def _complete(self, columns: _Columns) -> None:
        batch = encode(
            columns.values,
            int(time.time() * 1000),
            columns.keys,
            columns.times,
            columns.headers,
            self._compression,
            self._level,
        )
        self.bytes -= columns.bytes - HEAD_BYTES
        columns.clear()
        self._sticky.pop(columns.place[0], None)  # the next batch without keys goes to another partition
        self._on_batch(columns.place, batch)

    def choose(self, topic: str, key: bytes | None) -> int:
        """Return the partition of a record: by its key, as Java's partitioner, or the same for a whole batch."""
        if key is None:
            partition = self._sticky.get(topic)
            if partition is None:
                leaders = self._leaders_of(topic)
                reachable = [number for number, leader in enumerate(leaders) if leader >= 0]
                partition = self._sticky[topic] = random.choice(reachable or range(len(leaders)))  # noqa: S311
            return partition
        count = len(self._leaders_of(topic))
        entry = self._partitions.get((topic, key))
        if entry is not None and entry[0] == count:
            return entry[1]
        partition = partition_of(key, count)
        if len(self._partitions) >= _MOST_KEYS:
            self._partitions.clear()
        self._partitions[topic, key] = count, partition
        return partition
