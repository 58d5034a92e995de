"""Passes records to the producer, also when its queue is full: the innermost loops."""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from ringfence.connectors.api import RecordBatch
from ringfence.connectors.api.records import MixedBatch
from ringfence.fencing.kafka.protocols import Produce

Call = tuple[object, ...]
"""The positional arguments of `produce`."""


def make_call(
    topic: str,
    value: bytes | None,
    key: bytes | None,
    partition: int | None,
    timestamp: int | None,
    headers: list[tuple[str, bytes | None]] | None,
) -> Call:
    """Return the arguments of `produce`, positional: keywords cost twice as much. The two None are delivery
    callbacks.
    """
    to = -1 if partition is None else partition
    if headers is not None:
        return (topic, value, key, to, None, None, timestamp or 0, headers)
    if timestamp:
        return (topic, value, key, to, None, None, timestamp)
    return (topic, value, key, to)


def send_calls(calls: Sequence[Call], produce: Produce, full: Callable[[], None]) -> int:
    """Call `produce` for each; return their number. `full()` makes room in the producer's queue, or raises."""
    _send(calls, produce, full)
    return len(calls)


def send_raw(batch: RecordBatch, produce: Produce, full: Callable[[], None]) -> int:
    """Do the same with a serialised batch."""
    if isinstance(batch, MixedBatch):
        _send(_mixed_calls(batch), produce, full)
        return len(batch)
    if batch.keys is not None or batch.partition is not None or batch.timestamps is not None or batch.headers:
        _send(_calls(batch), produce, full)
        return len(batch)
    topic = batch.topic
    for value in batch.values:
        try:
            produce(topic, value)
        except BufferError:
            _again(produce, (topic, value), full)
    return len(batch)


def _mixed_calls(batch: MixedBatch) -> Iterable[Call]:
    topics = repeat(batch.topics) if isinstance(batch.topics, str) else batch.topics
    return _columns(batch, topics, repeat(-1) if batch.partitions is None else batch.partitions)


def _calls(batch: RecordBatch) -> Iterable[Call]:
    return _columns(batch, repeat(batch.topic), repeat(-1 if batch.partition is None else batch.partition))


def _columns(batch: RecordBatch, topics: Iterable[str], partitions: Iterable[int]) -> Iterable[Call]:
    """Return no more arguments than needed, because each one costs time."""
    no = repeat(None)
    keys = no if batch.keys is None else batch.keys
    common = topics, batch.values, keys, partitions
    if batch.timestamps is None and batch.headers is None:
        return zip(*common, strict=False)
    times: Iterable[int] = repeat(0) if batch.timestamps is None else batch.timestamps
    if batch.timestamps and min(batch.timestamps) < 0:
        times = [max(0, time) for time in batch.timestamps]
    if batch.headers is None:
        return zip(*common, no, no, times, strict=False)
    headers = (list(each) if each else None for each in batch.headers)
    return zip(*common, no, no, times, headers, strict=False)


def _send(calls: Iterable[Call], produce: Produce, full: Callable[[], None]) -> None:
    for call in calls:
        try:
            produce(*call)
        except BufferError:
            _again(produce, call, full)


def _again(produce: Produce, call: Call, full: Callable[[], None]) -> None:
    while True:
        full()
        try:
            produce(*call)
            return
        except BufferError:
            continue
