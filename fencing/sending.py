"""Handing records to the producer, also where its queue is full: the innermost loops."""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

from connectors.api import RecordBatch

Produce = Callable[..., None]
"""confluent-kafka's `produce(topic, value, key, partition, on_delivery, timestamp, headers)`."""


def send_calls(calls: list[tuple[object, ...]], produce: Produce, full: Callable[[], None]) -> int:
    """One call of `produce` for each; their number. `full()` makes room in the producer's queue, or raises."""
    position, count = 0, len(calls)
    while position < count:
        try:
            for call in calls[position:] if position else calls:
                produce(*call)
                position += 1
        except BufferError:
            full()
    return count


def send_raw(batch: RecordBatch, produce: Produce, full: Callable[[], None]) -> int:
    """The same of ready bytes."""
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
    times: Iterable[int] = repeat(0) if batch.timestamps is None else batch.timestamps
    if batch.timestamps and min(batch.timestamps) < 0:
        times = [max(0, time) for time in batch.timestamps]
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
