"""A batch's way from the plugin to the producer's queue: transform, convert, produce. The hot path.

In two halves. `prepare` transforms and converts, which needs no transaction, so that it can be done while the last one
commits; `send` only produces. Offsets are gathered, not produced: the newest one per source partition goes into the
transaction last.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Protocol

from connectors.api import RecordBatch, SourceRecord
from connectors.api.errors import ConnectorError
from fencing.offsets import Offset, Partition, canonical
from fencing.record_errors import RecordErrors, Steps

Produce = Callable[..., None]
"""confluent-kafka's `produce(topic, value, key, partition, on_delivery, timestamp, headers)`."""


class Convert(Steps, Protocol):
    """What the path needs of converters and transforms; bound once per task."""

    raw: bool
    """True where `RecordBatch` is legal."""

    def record(self, record: SourceRecord) -> SourceRecord | None:
        """The record after all transforms; None drops it."""
        ...

    transforms: bool


class GatheredOffsets:
    """The newest offset per source partition of the open transaction."""

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[str, tuple[Partition, Offset | None]] = {}

    def put(self, partition: Partition, offset: Offset | None) -> None:
        self._newest[canonical(partition)] = (partition, offset)

    def take(self) -> list[tuple[Partition, Offset | None]]:
        """All of them; the collection is empty afterwards."""
        taken = list(self._newest.values())
        self._newest.clear()
        return taken

    def peek(self) -> list[tuple[Partition, Offset | None]]:
        """All of them, as they stand."""
        return list(self._newest.values())

    def __bool__(self) -> bool:
        return bool(self._newest)


class Prepared:
    """A batch ready to be produced. `batch` is what the plugin returned; `size` counts the bytes of the values."""

    __slots__ = ("batch", "calls", "offsets", "size", "topics")

    def __init__(self, batch: Sequence[SourceRecord] | RecordBatch) -> None:
        self.batch = batch
        self.calls: list[tuple[object, ...]] = []
        """Positional arguments of `produce`, one tuple a record; empty for a `RecordBatch`, which needs none."""
        self.offsets: list[tuple[Partition, Offset | None]] = []
        """In the plugin's order: a later one of the same partition is newer; None deletes."""
        self.size = 0
        self.topics: set[str] = set()
        """Where its records go."""


class RecordPath:
    """Prepares and sends batches."""

    def __init__(
        self,
        convert: Convert,
        offsets_topic: str = "",
        *,
        errors: RecordErrors | None = None,
        ensure: Callable[[str], None] | None = None,
    ) -> None:
        """offsets_topic: where this task's offsets are kept, which no record may go to. errors: what to do about a
        record that fails; None raises. ensure(topic): called before the first record of a batch goes there.
        """
        self._convert = convert
        self._offsets_topic = offsets_topic
        self._errors = errors
        self._ensure = ensure
        self.bytes = 0

    def prepare(self, batch: Sequence[SourceRecord] | RecordBatch) -> Prepared:
        """Transform and convert. Raises what transforms and converters raise."""
        if isinstance(batch, RecordBatch):
            return self._prepare_raw(batch)
        return self._prepare_records(batch)

    def _check_topic(self, topic: str) -> None:
        if topic == self._offsets_topic:
            raise ConnectorError(
                f"The task produced a record to {topic}, which holds its own source offsets: it could be taken for an "
                "offset. Send records to another topic, or give the connector another offsets.storage.topic"
            )
        if self._ensure is not None:
            self._ensure(topic)

    def _prepare_raw(self, batch: RecordBatch) -> Prepared:
        if not self._convert.raw:
            raise ConnectorError(
                "The task returned a RecordBatch although a converter or a transform changes the bytes: "
                "look at context.raw_batches before you return one"
            )
        self._check_topic(batch.topic)
        prepared = Prepared(batch)
        if len(batch):
            prepared.offsets.append((batch.source_partition, batch.source_offset))
            prepared.size = sum(map(len, filter(None, batch.values)))
            prepared.topics.add(batch.topic)
        return prepared

    def _prepare_records(self, batch: Sequence[SourceRecord]) -> Prepared:
        prepared = Prepared(batch)
        convert, add, offsets = self._convert, prepared.calls.append, prepared.offsets
        to_value, to_key = convert.value, convert.key
        transform = convert.record if convert.transforms else None
        size = 0
        partition: Partition | None = None
        offset: Offset | None = None
        checked = ""
        for record in batch:
            if record.source_partition is not partition:
                if partition is not None:
                    offsets.append((partition, offset))
                partition = record.source_partition
            offset = record.source_offset
            try:
                out = record if transform is None else transform(record)
                if out is None:
                    continue
                topic = out.topic
                if topic != checked:
                    self._check_topic(topic)
                    prepared.topics.add(topic)
                    checked = topic
                value = to_value(topic, out.value, out.value_schema)
                key = None if out.key is None and out.key_schema is None else to_key(topic, out.key, out.key_schema)
                headers = convert.headers(topic, out.headers) if out.headers else None
            except Exception:
                if self._errors is None:
                    raise
                self._try_again(record, prepared)
                continue
            to = -1 if out.partition is None else out.partition
            if value is not None:
                size += len(value)
            # Positional: confluent-kafka takes keywords at twice the price. The two None are delivery callbacks.
            if headers is not None:
                add((topic, value, key, to, None, None, out.timestamp or 0, headers))
            elif out.timestamp:
                add((topic, value, key, to, None, None, out.timestamp))
            else:
                add((topic, value, key, to))
        if partition is not None:
            offsets.append((partition, offset))
        prepared.size += size
        return prepared

    def _try_again(self, record: SourceRecord, prepared: Prepared) -> None:
        """Step by step; raises what is not tolerated."""
        assert self._errors is not None
        produced = self._errors.produce_of(record, self._check_topic)
        if produced is None:
            return
        prepared.calls.append(produced)
        if produced[0] != self._errors.dead_letters:
            prepared.topics.add(str(produced[0]))
        if isinstance(produced[1], bytes):
            prepared.size += len(produced[1])

    def send(self, prepared: Prepared, produce: Produce, full: Callable[[], None], offsets: GatheredOffsets) -> int:
        """Produce the batch; the number of records that went out (the rest was dropped by transforms).

        `full()` is called when the producer's queue is full; it makes room or raises.
        """
        if isinstance(prepared.batch, RecordBatch):
            sent = _send_raw(prepared.batch, produce, full)
        else:
            sent = _send_calls(prepared.calls, produce, full)
        for partition, offset in prepared.offsets:
            offsets.put(partition, offset)
        self.bytes += prepared.size
        return sent


def _send_calls(calls: list[tuple[object, ...]], produce: Produce, full: Callable[[], None]) -> int:
    position, count = 0, len(calls)
    while position < count:
        try:
            for call in calls[position:] if position else calls:
                produce(*call)
                position += 1
        except BufferError:
            full()
    return count


def _send_raw(batch: RecordBatch, produce: Produce, full: Callable[[], None]) -> int:
    if batch.timestamps is not None or batch.headers is not None:
        return _send_whole(batch, produce, full)
    topic, values, keys = batch.topic, batch.values, batch.keys
    partition = -1 if batch.partition is None else batch.partition
    position, count = 0, len(values)
    while position < count:
        try:
            if keys is not None:
                for position in range(position, count):  # noqa: B020 - goes on where the queue was full
                    produce(topic, values[position], keys[position], partition)
            elif partition < 0:
                for value in values[position:] if position else values:
                    produce(topic, value)
                    position += 1
                break
            else:
                for position in range(position, count):  # noqa: B020
                    produce(topic, values[position], None, partition)
            position = count
        except BufferError:
            full()
    return count


def _send_whole(batch: RecordBatch, produce: Produce, full: Callable[[], None]) -> int:
    """With timestamps and headers."""
    partition = -1 if batch.partition is None else batch.partition
    no = repeat(None)
    times = repeat(0) if batch.timestamps is None else (max(0, time) for time in batch.timestamps)
    keys = no if batch.keys is None else batch.keys
    if batch.headers is None:
        calls: Iterator[tuple[object, ...]] = zip(
            repeat(batch.topic), batch.values, keys, repeat(partition), no, no, times, strict=False
        )
    else:
        headers = (list(each) if each else None for each in batch.headers)
        calls = zip(repeat(batch.topic), batch.values, keys, repeat(partition), no, no, times, headers, strict=False)
    for call in calls:
        try:
            produce(*call)
        except BufferError:
            _again(produce, call, full)
    return len(batch)


def _again(produce: Produce, call: tuple[object, ...], full: Callable[[], None]) -> None:
    while True:
        full()
        try:
            produce(*call)
            return
        except BufferError:
            continue
