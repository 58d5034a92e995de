"""The status topic's records, in Kafka Connect's format with our extra fields: `decode`, `encode` and `apply`.

Keys: `status-connector-<c>`, `status-task-<c>-<n>`, `status-topic-<t>:connector-<c>` (Connect's), `worker-<id>`,
`leader`, `suspicion-<id>`, `answer-<id>` and `topic-ids` (ours; Connect ignores them). A tombstone removes the entry.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

from ringfence.connectors.sdk.names import MAX_NAME_BYTES
from ringfence.fencing.topics import topic_ids
from ringfence.fencing.topics.active_topics import TopicStatus
from ringfence.fencing.topics.config_record import dump
from ringfence.fencing.topics.status.connector import ConnectorStatus
from ringfence.fencing.topics.status.leader import LeaderRecord
from ringfence.fencing.topics.status.suspicion import AnswerRecord, SuspicionRecord, Trust
from ringfence.fencing.topics.status.task import (
    FAILED,
    KAFKA,
    LOST,
    MISCONFIGURED,
    NO_SLOT,
    PLACED,
    RESTARTED,
    STARTING,
    SUPERSEDED,
    PollRetry,
    TaskStatus,
    replaces,
)
from ringfence.fencing.topics.status.worker import WorkerRecord
from ringfence.fencing.topics.status_entry import Attempt, State, StatusEntry, StatusFold, StatusState
from ringfence.fencing.topics.topic_ids import TopicIds

__all__ = [
    "FAILED",
    "KAFKA",
    "LOST",
    "MISCONFIGURED",
    "NO_SLOT",
    "PLACED",
    "RECORD_TYPES",
    "RESTARTED",
    "STARTING",
    "SUPERSEDED",
    "AnswerRecord",
    "Attempt",
    "ConnectorStatus",
    "LeaderRecord",
    "PollRetry",
    "State",
    "StatusFold",
    "StatusRecord",
    "StatusState",
    "StatusTombstone",
    "SuspicionRecord",
    "TaskStatus",
    "TopicStatus",
    "Trust",
    "WorkerRecord",
    "apply",
    "apply_to",
    "decode",
    "encode",
    "fold",
    "replaces",
]


@dataclass(frozen=True, slots=True)
class StatusTombstone:
    """A tombstone under the given key."""

    key: str


StatusRecord = StatusEntry | TopicIds | StatusTombstone

_MAX_KEY_BYTES: Final = 2 * MAX_NAME_BYTES + 50
"""A key holds a topic and a connector at most. Longer ones are ignored, like unreadable values."""

RECORD_TYPES: Final[tuple[type[StatusEntry], ...]] = (
    ConnectorStatus,
    TaskStatus,
    TopicStatus,
    WorkerRecord,
    LeaderRecord,
    SuspicionRecord,
    AnswerRecord,
)


def _split(key: str) -> tuple[type[StatusEntry], str] | None:
    """Split a key into type and rest; None for an unknown key. No prefix is the beginning of another."""
    if len(key.encode()) > _MAX_KEY_BYTES:
        return None
    return next(((cls, key[len(cls.PREFIX) :]) for cls in RECORD_TYPES if key.startswith(cls.PREFIX)), None)


def encode(record: StatusRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a status topic record."""
    if isinstance(record, StatusTombstone):
        return record.key.encode(), None
    return record.to_key().encode(), dump(record.to_value())


def decode(key: bytes | None, value: bytes | None) -> StatusRecord | None:
    """Decode a status topic record; None for an unknown key or an unreadable value.

    No decision depends on a status, so an unreadable one is ignored, as in Kafka Connect.
    """
    try:
        text = (key or b"").decode()
        if value is None:
            return None if len(text.encode()) > _MAX_KEY_BYTES else StatusTombstone(text)
        if text == topic_ids.KEY:
            return topic_ids.loads(value)
        parts, fields = _split(text), json.loads(value)
        if parts is None or not isinstance(fields, dict):
            return None
        return parts[0].parse(parts[1], cast(dict[str, object], fields))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def apply(state: StatusState, record: StatusRecord | None) -> StatusState:
    """Return the state after one more record; unchanged for None. For many records, see `fold`."""
    return state if record is None else fold(state, [record])


def fold(state: StatusState, records: Iterable[StatusRecord | None]) -> StatusState:
    """Return the state after these records; None changes nothing."""
    folding = StatusFold(state)
    for record in records:
        apply_to(folding, record)
    return folding.state


def apply_to(folding: StatusFold, record: StatusRecord | None) -> None:
    """Apply one more record; None changes nothing."""
    match record:
        case None:
            return
        case TopicIds():
            folding.topic_ids = record
        case StatusTombstone(key):
            if parts := _split(key):
                parts[0].remove(parts[1], folding)
        case _:
            record.apply_to(folding)
