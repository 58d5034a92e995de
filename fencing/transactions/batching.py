"""Gathers single records to record batches, by partition: Java's partitioner, and sticky batches without a key."""

import random
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import inf
from typing import Final

from ringfence.connectors.api.records import EncodedBatch, RawHeaders
from ringfence.fencing.kafka.partitioner import partition_of
from ringfence.fencing.transactions.messages import Place
from ringfence.fencing.transactions.record_batches import HEAD_BYTES, RECORD_OVERHEAD, RecordBatch, encode
from ringfence.fencing.transactions.record_columns import GrowingColumns, OnWritten, RecordColumns, total_bytes

_MOST_KEYS: Final = 1000
_LOOKS_AT_CLOCK: Final = 64
"""After so many records of a batch."""
OnBatch = Callable[[Place, RecordBatch], None]


class _Waiting(GrowingColumns):
    """The records of one partition that are in no batch yet. bytes: no less than what their batch takes; since: the
    first one, by a monotonic clock.
    """

    __slots__ = ("bytes", "on_written", "since")

    def __init__(self, place: Place) -> None:
        super().__init__(*place)
        self.bytes = HEAD_BYTES
        self.on_written: list[OnWritten | None] | None = None
        self.since = time.monotonic()

    def note(self, on_written: Sequence[OnWritten | None]) -> None:
        """Report the records that were added last."""
        if self.on_written is None:
            self.on_written = [None] * (len(self.values) - len(on_written))
        self.on_written += on_written


def _sizes_of(columns: RecordColumns) -> list[int]:
    """Return no less than what each record takes in a batch."""
    values, keys, headers = columns.values, columns.keys, columns.headers
    try:
        sizes = [*map(RECORD_OVERHEAD.__add__, map(len, values))]  # type: ignore[arg-type]  # None raises a TypeError
    except TypeError:
        sizes = [RECORD_OVERHEAD + len(each or b"") for each in values]
    if keys is not None:
        sizes = [size + len(key or b"") for size, key in zip(sizes, keys, strict=True)]
    if headers is not None:
        sizes = [size + _size_of_headers(each) for size, each in zip(sizes, headers, strict=True)]
    return sizes


def _size_of(columns: RecordColumns) -> int:
    """Return the sum of these sizes, which takes a tenth of the time."""
    size = RECORD_OVERHEAD * len(columns) + columns.value_bytes
    if columns.keys is not None:
        size += total_bytes(columns.keys)
    if columns.headers is not None:
        size += sum(map(_size_of_headers, columns.headers))
    return size


def _size_of_headers(headers: RawHeaders | None) -> int:
    return sum(len(name.encode()) + len(content or b"") + RECORD_OVERHEAD for name, content in headers or ())


class Batching:
    """on_batch: called with each batch that is complete."""

    def __init__(
        self,
        on_batch: OnBatch,
        leaders_of: Callable[[str], Sequence[int]],
        batch_bytes: int,
        compression: str = "none",
        level: int | None = None,
        linger_s: float = inf,
    ) -> None:
        """leaders_of: returns the leader of each of a topic's partitions, -1 for none. batch_bytes: Java's
        `batch.size`, of records that are not compressed yet. linger_s: how long a batch that is not full waits for more
        records. It is completed by the next call then, or by `flush`: before the commit, nobody can see it.
        """
        self._on_batch = on_batch
        self._leaders_of = leaders_of
        self._batch_bytes = batch_bytes
        self._compression = compression
        self._level = level
        self._linger_s = linger_s
        self._waiting: dict[Place, _Waiting] = {}
        self._sticky: dict[str, int] = {}
        self._partitions: dict[str, tuple[int, dict[bytes, int]]] = {}
        """For each topic, its number of partitions and those of its keys."""
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
        on_written: OnWritten | None = None,
    ) -> None:
        """Add a record. partition: -1 for the partitioner's choice; timestamp: 0 for now."""
        if partition < 0:
            partition = self.choose(topic, key)
        place = topic, partition
        size = RECORD_OVERHEAD
        if value:
            size += len(value)
        if key:
            size += len(key)
        if headers:
            size += _size_of_headers(headers)
        waiting = self._waiting.get(place)
        if waiting is not None and waiting.bytes + size > self._batch_bytes:
            self._complete(waiting)
            waiting = None
        if waiting is None:
            waiting = self._waiting[place] = _Waiting(place)
        waiting.add(value, key, timestamp, headers)
        waiting.encoded = None
        if on_written is not None or waiting.on_written is not None:
            waiting.note((on_written,))
        waiting.bytes += size
        self.bytes += size
        if waiting.bytes >= self._batch_bytes:
            self._complete(waiting)
        elif not len(waiting.values) % _LOOKS_AT_CLOCK:
            self.complete_due()

    def add_columns(self, columns: RecordColumns, on_written: Sequence[OnWritten | None] | None = None) -> None:
        """Add many records at once. on_written: None, or one for each."""
        self._add_columns(columns, on_written)
        self.complete_due()

    def _add_columns(self, columns: RecordColumns, on_written: Sequence[OnWritten | None] | None) -> None:
        if columns.partition >= 0 or columns.keys is None:
            self._add_rows(columns, columns.partition, on_written)
            return
        rows: dict[int, list[int]] = {}
        for row, own_partition in enumerate(self._choose_all(columns.topic, columns.keys)):
            rows.setdefault(own_partition, []).append(row)
        if len(rows) == 1:
            self._add_rows(columns, next(iter(rows)), on_written)
            return
        for own_partition, numbers in rows.items():
            reports = None if on_written is None else [on_written[number] for number in numbers]
            self._add_rows(columns.pick(numbers, own_partition), own_partition, reports)

    def add_encoded(self, batch: EncodedBatch) -> None:
        """Add records that are encoded already."""
        place = batch.topic, batch.partition if batch.partition >= 0 else self.choose(batch.topic, None)
        waiting = self._waiting.get(place)
        if waiting is not None and waiting.values:
            self._complete(waiting)
        self._sticky.pop(batch.topic, None)
        self._on_batch(place, RecordBatch.of(batch, self._compression, self._level))

    def _add_rows(self, columns: RecordColumns, partition: int, on_written: Sequence[OnWritten | None] | None) -> None:
        """Add records of one partition. -1: of any, another one for each batch."""
        if not len(columns):
            return
        place = columns.topic, partition if partition >= 0 else self.choose(columns.topic, None)
        waiting = self._waiting.get(place)
        size = _size_of(columns)
        if (HEAD_BYTES if waiting is None else waiting.bytes) + size < self._batch_bytes:
            self._extend(place, columns, size, on_written)
        else:
            self._add_parts(columns, partition, on_written)

    def _extend(
        self, place: Place, columns: RecordColumns, size: int, on_written: Sequence[OnWritten | None] | None
    ) -> _Waiting:
        """Add records to the batch of their partition, which has room for them."""
        waiting = self._waiting.get(place)
        if waiting is None:
            waiting = self._waiting[place] = _Waiting(place)
        is_alone = not waiting.values and on_written is None
        waiting.encoded = columns.encoded if is_alone else None
        waiting.extend(columns)
        if on_written is not None or waiting.on_written is not None:
            waiting.note(on_written or [None] * len(columns))
        waiting.bytes += size
        self.bytes += size
        return waiting

    def _add_parts(self, columns: RecordColumns, partition: int, on_written: Sequence[OnWritten | None] | None) -> None:
        """Add more records than fit into the batch that waits."""
        topic = columns.topic
        sums = list(accumulate(_sizes_of(columns), initial=0))
        start, count = 0, len(columns)
        while start < count:
            place = topic, partition if partition >= 0 else self.choose(topic, None)
            waiting = self._waiting.get(place)
            filled_bytes = HEAD_BYTES if waiting is None else waiting.bytes
            end = bisect_right(sums, sums[start] + self._batch_bytes - filled_bytes) - 1
            if end <= start:  # the next record does not fit
                if waiting is not None and waiting.values:
                    self._complete(waiting)
                    continue
                end = start + 1
            part = columns.part(slice(start, end))
            reports = None if on_written is None else on_written[start:end]
            size = sums[end] - sums[start]
            full = end < count or size + filled_bytes >= self._batch_bytes
            if filled_bytes > HEAD_BYTES or not full:
                waiting = self._extend(place, part, size, reports)
                if full:
                    self._complete(waiting)
            else:
                self._emit(place, part, reports)
            start = end

    def complete_due(self) -> None:
        """Complete the batches that have waited long enough."""
        if self._waiting:
            due = time.monotonic() - self._linger_s
            for waiting in list(self._waiting.values()):
                if waiting.values and waiting.since <= due:
                    self._complete(waiting)

    def flush(self) -> None:
        """Complete all batches."""
        for waiting in list(self._waiting.values()):
            if waiting.values:
                self._complete(waiting)

    def clear(self) -> None:
        """Forget all records that are in no batch yet."""
        self._waiting.clear()
        self.bytes = 0

    def _complete(self, waiting: _Waiting) -> None:
        place = waiting.topic, waiting.partition
        del self._waiting[place]
        self.bytes -= waiting.bytes - HEAD_BYTES
        self._emit(place, waiting, waiting.on_written)

    def encode_ahead(self, columns: RecordColumns) -> None:
        """Encode records before they are added, for the case that they make a batch by themselves. Thread-safe."""
        if columns.keys is None and _size_of(columns) + HEAD_BYTES < self._batch_bytes:
            columns.encoded = self._encode(columns, None)

    def _encode(self, columns: RecordColumns, on_written: Sequence[OnWritten | None] | None) -> RecordBatch:
        return encode(
            columns.values,
            int(time.time() * 1000),
            columns.keys,
            columns.timestamps,
            columns.headers,
            self._compression,
            self._level,
            on_written,
        )

    def _emit(self, place: Place, columns: RecordColumns, on_written: Sequence[OnWritten | None] | None) -> None:
        encoded = columns.encoded
        batch = encoded if isinstance(encoded, RecordBatch) else self._encode(columns, on_written)
        self._sticky.pop(place[0], None)  # the next batch without keys goes to another partition
        self._on_batch(place, batch)

    def choose(self, topic: str, key: bytes | None) -> int:
        """Return the partition of a record: by its key, as Java's partitioner, or the same for a whole batch."""
        if key is None:
            partition = self._sticky.get(topic)
            if partition is None:
                leaders = self._leaders_of(topic)
                reachable = [number for number, leader in enumerate(leaders) if leader >= 0]
                partition = self._sticky[topic] = random.choice(reachable or range(len(leaders)))  # noqa: S311
            return partition
        return self._choose_all(topic, [key])[0]

    def _choose_all(self, topic: str, keys: Sequence[bytes | None]) -> list[int]:
        count = len(self._leaders_of(topic))
        last_count, by_key = self._partitions.get(topic, (0, {}))
        if last_count != count or len(by_key) > _MOST_KEYS:
            by_key = {}
            self._partitions[topic] = count, by_key
        partitions = []
        for key in keys:
            if key is None:
                partitions.append(self.choose(topic, None))
                continue
            partition = by_key.get(key)
            if partition is None:
                partition = by_key[key] = partition_of(key, count)
            partitions.append(partition)
        return partitions
