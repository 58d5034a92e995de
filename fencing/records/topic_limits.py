"""What a topic accepts: the size of a record, a key, and a time. Pure.

A record that a broker refuses aborts the transaction with everything else in it, and fails the task. So a record of a
stranger is held against these limits before it is accepted (`fencing.task.admission`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import RecordRefused
from ringfence.fencing.records.send_window import RECORD_OVERHEAD

BATCH_OVERHEAD: Final = 61
"""The bytes of a record batch's head."""
_HEADER_OVERHEAD: Final = 20
"""The most bytes that librdkafka counts for a header beside its name and value."""
_LARGEST_TIME: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """largest: bytes of a record batch, 0 if it is not known; keyed: each record needs a key, as in a compacted topic;
    past_ms, future_ms: how far a record's time may differ from now, None if it does not matter.
    """

    largest: int = 0
    keyed: bool = False
    past_ms: int | None = None
    future_ms: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "TopicLimits":
        """Read them from a topic's settings."""
        log_time = settings.get("message.timestamp.type") == "LogAppendTime"
        return cls(
            _number(settings.get("max.message.bytes")) or 0,
            "compact" in settings.get("cleanup.policy", ""),
            None if log_time else _number(settings.get("message.timestamp.before.max.ms")),
            None if log_time else _number(settings.get("message.timestamp.after.max.ms")),
        )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def record_bytes(call: Sequence[object]) -> int:
    """Return the most bytes that a record takes in a batch. call: the arguments of `produce`."""
    pairs = call[7] if len(call) > 7 else None
    size = RECORD_OVERHEAD + _length(call[1]) + _length(call[2])
    if isinstance(pairs, Sequence):
        size += sum(_HEADER_OVERHEAD + len(name.encode()) + _length(value) for name, value in pairs)
    return size


def _length(part: object) -> int:
    return len(part) if isinstance(part, bytes) else 0


def check_record(call: Sequence[object], size: int, limits: TopicLimits, most: int, now_ms: int) -> None:
    """Raise `RecordRefused` for a record that the producer or the topic would not accept.

    size: `record_bytes`; most: the largest record that the producer accepts.
    """
    topic = call[0]
    largest = min(most, limits.largest - BATCH_OVERHEAD) if limits.largest else most
    if size > largest:
        raise RecordRefused(
            f"The record takes {size:,} bytes, and {topic} accepts {largest:,}: raise the topic's max.message.bytes "
            "and the connector's producer.override.max.request.size",
            too_large=True,
        )
    if limits.keyed and call[2] is None:
        raise RecordRefused(f"The record has no key, and {topic} is compacted: have idempotency keys, or a transform")
    at = call[6] if len(call) > 6 else 0
    if not isinstance(at, int) or not 0 <= at <= _LARGEST_TIME:
        raise RecordRefused(f"The record's time is no time in ms that {topic} can hold")
    if at and limits.past_ms is not None and now_ms - at > limits.past_ms:
        raise RecordRefused(f"The record is older than {topic} accepts (message.timestamp.before.max.ms)")
    if at and limits.future_ms is not None and at - now_ms > limits.future_ms:
        raise RecordRefused(f"The record is from later than {topic} accepts (message.timestamp.after.max.ms)")
