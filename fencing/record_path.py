"""A batch's way from the plugin to the producer's queue: transform, convert, produce. The hot path.

Offsets are gathered, not produced: the newest one per source partition goes into the transaction last.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from connectors.api import RecordBatch, SourceRecord
from connectors.api.errors import ConnectorError
from fencing.offsets import Offset, Partition, canonical

Produce = Callable[..., None]
"""confluent-kafka's `produce(topic, value, key, partition, on_delivery, timestamp, headers)`."""


class Convert(Protocol):
    """What the path needs of converters and transforms; bound once per task."""

    raw: bool
    """True where `RecordBatch` is legal."""

    def record(self, record: SourceRecord) -> SourceRecord | None:
        """The record after all transforms; None drops it."""
        ...

    transforms: bool

    def key(self, topic: str, value: object) -> bytes | None: ...

    def value(self, topic: str, value: object) -> bytes | None: ...

    def headers(self, topic: str, headers: Sequence[tuple[str, object]]) -> list[tuple[str, bytes | None]]: ...


class GatheredOffsets:
    """The newest offset per source partition of the open transaction."""

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[str, tuple[Partition, Offset]] = {}

    def put(self, partition: Partition, offset: Offset) -> None:
        self._newest[canonical(partition)] = (partition, offset)

    def take(self) -> list[tuple[Partition, Offset]]:
        """All of them; the collection is empty afterwards."""
        taken = list(self._newest.values())
        self._newest.clear()
        return taken

    def __bool__(self) -> bool:
        return bool(self._newest)


class RecordPath:
    """Sends batches. `full()` is called when the producer's queue is full; it makes room or raises."""

    def __init__(self, convert: Convert) -> None:
        self._convert = convert
        self.bytes = 0

    def send(
        self,
        batch: Sequence[SourceRecord] | RecordBatch,
        produce: Produce,
        full: Callable[[], None],
        offsets: GatheredOffsets,
    ) -> int:
        """Produce the batch; the number of records that went out (the rest was dropped by transforms)."""
        if isinstance(batch, RecordBatch):
            return self._send_raw(batch, produce, full, offsets)
        return self._send_records(batch, produce, full, offsets)

    def _send_raw(
        self, batch: RecordBatch, produce: Produce, full: Callable[[], None], offsets: GatheredOffsets
    ) -> int:
        if not self._convert.raw:
            raise ConnectorError(
                "The task returned a RecordBatch although a converter or a transform changes the bytes: "
                "look at context.raw_batches before you return one"
            )
        topic, values, keys = batch.topic, batch.values, batch.keys
        partition = -1 if batch.partition is None else batch.partition
        position, count = 0, len(values)
        while position < count:
            try:
                if keys is not None:
                    for position in range(position, count):  # noqa: B020 - goes on where the queue was full
                        produce(topic, values[position], keys[position], partition)
                elif partition < 0 and position == 0:
                    for value in values:
                        produce(topic, value)
                        position += 1
                    break
                else:
                    for position in range(position, count):  # noqa: B020
                        produce(topic, values[position], None, partition)
                position = count
            except BufferError:
                full()
        self.bytes += sum(map(len, values))
        if count:
            offsets.put(batch.source_partition, batch.source_offset)
        return count

    def _send_records(
        self, batch: Sequence[SourceRecord], produce: Produce, full: Callable[[], None], offsets: GatheredOffsets
    ) -> int:
        convert = self._convert
        to_value, to_key = convert.value, convert.key
        transform = convert.record if convert.transforms else None
        sent = size = 0
        partition: Partition | None = None
        offset: Offset = {}
        for record in batch:
            if record.source_partition is not partition:
                if partition is not None:
                    offsets.put(partition, offset)
                partition = record.source_partition
            offset = record.source_offset
            out = record if transform is None else transform(record)
            if out is None:
                continue
            topic = out.topic
            value = to_value(topic, out.value)
            key = None if out.key is None else to_key(topic, out.key)
            headers = convert.headers(topic, out.headers) if out.headers else None
            while True:
                try:
                    if out.partition is None and headers is None and out.timestamp is None:
                        produce(topic, value, key)
                    else:
                        produce(
                            topic,
                            value,
                            key,
                            -1 if out.partition is None else out.partition,
                            timestamp=out.timestamp or 0,
                            headers=headers,
                        )
                    break
                except BufferError:
                    full()
            sent += 1
            size += len(value) if value is not None else 0
        if partition is not None:
            offsets.put(partition, offset)
        self.bytes += size
        return sent
