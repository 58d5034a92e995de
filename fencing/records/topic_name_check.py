"""Which topics a task may produce to. Each name is checked once, not with each record.

Of what a topic accepts, `TopicLimits` knows the size of a record, keys and times. A record that a broker refuses aborts
the transaction with everything else in it, and fails the task. So a record of a stranger is held against these limits
before it is accepted (`fencing.task.admission`).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import RecordRefused
from ringfence.connectors.api.errors import ConnectorError
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.fencing.transactions.record_batches import HEAD_BYTES
from ringfence.fencing.transactions.record_columns import Record

_RECORD_OVERHEAD: Final = 36
"""The most bytes that a record takes beside its key, value and headers."""
_HEADER_OVERHEAD: Final = 20
"""The most bytes that a header takes beside its name and value."""
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


def record_bytes(record: Record) -> int:
    """Return the most bytes that a record takes in a batch."""
    _, value, key, _, _, headers = record
    size = _RECORD_OVERHEAD + len(value or b"") + len(key or b"")
    return size + sum(_HEADER_OVERHEAD + len(name.encode()) + len(content or b"") for name, content in headers or ())


def check_record(record: Record, size: int, limits: TopicLimits, most: int, now_ms: int) -> None:
    """Raise `RecordRefused` for a record that the producer or the topic would not accept.

    size: `record_bytes`; most: the largest record that the producer accepts.
    """
    topic, _, key, _, at, _ = record
    largest = min(most, limits.largest - HEAD_BYTES) if limits.largest else most
    if size > largest:
        raise RecordRefused(
            f"The record takes {size:,} bytes, and {topic} accepts {largest:,}: raise the topic's max.message.bytes "
            "and the connector's producer.override.max.request.size",
            too_large=True,
        )
    if limits.keyed and key is None:
        raise RecordRefused(f"The record has no key, and {topic} is compacted: have idempotency keys, or a transform")
    if not _is_time(at):
        raise RecordRefused(f"The record's time is no time in ms that {topic} can hold")
    if at and limits.past_ms is not None and now_ms - at > limits.past_ms:
        raise RecordRefused(f"The record is older than {topic} accepts (message.timestamp.before.max.ms)")
    if at and limits.future_ms is not None and at - now_ms > limits.future_ms:
        raise RecordRefused(f"The record is from later than {topic} accepts (message.timestamp.after.max.ms)")


def _is_time(at: object) -> bool:
    """at: what a transform has set, which may be anything."""
    return isinstance(at, int) and 0 <= at <= _LARGEST_TIME


_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_name(topic: str) -> None:
    """Raise `ConnectorError` for a name that no broker accepts as a topic's.

    Without this check, the client would only report in each transaction that some record could not be delivered.
    """
    if not _LEGAL.fullmatch(topic) or topic in (".", ".."):
        raise ConnectorError(
            f"The task produced a record to {topic[:300]!r}, which cannot be a topic: a name has 1 to 249 characters, "
            "a-z, A-Z, 0-9, '.', '_' and '-'. Correct the setting that names the topic, or the transform that makes "
            "the name, then restart the task"
        )


class TopicCheck:
    """offsets_topic: the topic of the task's offsets, which no record may go to. access: which topics are allowed;
    called for each batch, and returns another object if that has changed.
    """

    def __init__(self, offsets_topic: str, access: Callable[[], TopicAccess]) -> None:
        self._offsets_topic = offsets_topic
        self._access = access
        self._last_access: TopicAccess | None = None
        self._legal: set[str] = set()
        """The topics that `_last_access` allows."""

    def check(self, topic: str) -> None:
        """Raises `ConnectorError`."""
        access = self._access()
        if access is not self._last_access:
            self._legal.clear()
            self._last_access = access
        if topic in self._legal:
            return
        if topic == self._offsets_topic:
            raise ConnectorError(
                f"The task produced a record to {topic}, which holds its own source offsets: it could be taken for an "
                "offset. Send records to another topic, or give the connector another offsets.storage.topic"
            )
        check_name(topic)
        access.check(topic)
        self._legal.add(topic)

    def check_again(self, topics: Iterable[str]) -> None:
        """Raise `ConnectorError` if an uncommitted record went to a topic that is no longer allowed."""
        if self._access() is not self._last_access:
            for topic in topics:
                self.check(topic)
