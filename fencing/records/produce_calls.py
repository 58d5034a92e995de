"""Passes records to the producer, also when its queue is full: the innermost loops."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, repeat
from typing import Any

from ringfence.connectors.api import RecordBatch
from ringfence.connectors.api.records import MixedBatch
from ringfence.fencing.kafka.producer_interface import Produce
from ringfence.fencing.records.send_window import RECORD_OVERHEAD, SendWindow

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


def send_calls(
    calls: Sequence[Call], produce: Produce, full: Callable[[], None], window: SendWindow | None = None, size: int = 0
) -> int:
    """Call `produce` for each; return their number. `full()` makes room in the producer's queue, or raises.

    window: waits for deliveries between parts. size: of all values in bytes; only the window needs it.
    """
    if window is None or not calls:
        _send(calls, produce, full)
        return len(calls)
    more = _estimate_size(calls[0][2:3], calls[0][7:])
    _send_in_parts(calls, len(calls), size / len(calls) + more, produce, full, window)
    return len(calls)


def send_raw(
    batch: RecordBatch, produce: Produce, full: Callable[[], None], window: SendWindow | None = None, size: int = 0
) -> int:
    """Do the same with a serialised batch."""
    calls: Iterable[Call]
    if isinstance(batch, MixedBatch):
        calls = _mixed_calls(batch)
    elif batch.keys is not None or batch.partition is not None or batch.timestamps is not None or batch.headers:
        calls = _calls(batch)
    else:
        calls = zip(repeat(batch.topic), batch.values, strict=False)
    count = len(batch)
    if window is None or not count:
        _send(calls, produce, full)
    else:
        more = _estimate_size(batch.keys or (), batch.headers or ())
        _send_in_parts(calls, count, size / count + more, produce, full, window)
    return count


def _estimate_size(keys: Sequence[object], headers: Sequence[Any]) -> int:
    """Return the bytes of the first record's key and headers, as an estimate for each record."""
    key = keys[0] if keys else None
    pairs: Iterable[tuple[str, bytes | None]] = (headers[0] if headers else None) or ()
    size = sum(len(name) + len(value or b"") for name, value in pairs)
    return size + len(key) if isinstance(key, bytes) else size


def _send_in_parts(
    calls: Iterable[Call], left: int, average: float, produce: Produce, full: Callable[[], None], window: SendWindow
) -> None:
    rest = iter(calls)
    average += RECORD_OVERHEAD
    while left > 0:
        part = window.admit(left, average)
        _send(islice(rest, part), produce, full)
        left -= part


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
