"""The config topic's records, in Kafka Connect's formats: `decode` and `encode`.

`decode` never guesses: a known key with a value that cannot be read raises `Unreadable`, an unknown key gives
`UnknownKey`.
"""

from typing import Final

from ringfence.connectors.sdk.names import is_long, shorten
from ringfence.fencing.errors import Unreadable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.active_topics import TopicsResetRecord
from ringfence.fencing.topics.config_record import ConfigRecord, UnknownKey
from ringfence.fencing.topics.config_records.commit import CommitRecord
from ringfence.fencing.topics.config_records.connector import ConnectorRecord
from ringfence.fencing.topics.config_records.drain import DrainRecord
from ringfence.fencing.topics.config_records.format import FormatRecord
from ringfence.fencing.topics.config_records.placement import PlacementRecord
from ringfence.fencing.topics.config_records.restart import RestartRecord
from ringfence.fencing.topics.config_records.session_key import SESSION_KEY, SessionKeyRecord
from ringfence.fencing.topics.config_records.target_state import TargetStateRecord
from ringfence.fencing.topics.config_records.task import TaskRecord
from ringfence.fencing.topics.config_records.task_count import TaskCountRecord
from ringfence.fencing.topics.config_records.tombstone import TombstonePrefix, TombstoneRecord
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.log_levels import LOGGER, LoggerRecord
from ringfence.fencing.topics.signals import SignalsRecord
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.fencing.topics.topic_ids import TopicIds

__all__ = [
    "LOGGER",
    "RECORD_TYPES",
    "SESSION_KEY",
    "CommitRecord",
    "ConfigRecord",
    "ConnectorRecord",
    "DrainRecord",
    "FormatRecord",
    "PlacementRecord",
    "RestartRecord",
    "SessionKeyRecord",
    "TargetStateRecord",
    "TaskCountRecord",
    "TaskRecord",
    "TombstonePrefix",
    "TombstoneRecord",
    "UnknownKey",
    "connector_of",
    "decode",
    "encode",
    "tombstones_of",
]

RECORD_TYPES: Final[tuple[type[ConfigRecord], ...]] = (
    ConnectorRecord,
    TaskRecord,
    CommitRecord,
    TargetStateRecord,
    RestartRecord,
    TaskCountRecord,
    PlacementRecord,
    TopicsResetRecord,
    ConnectorLevelRecord,
    TopicGrantRecord,
    SignalsRecord,
    SweepRequestRecord,
    LoggerRecord,
    SessionKeyRecord,
    DrainRecord,
    TopicIds,
    FormatRecord,
)

_BY_PREFIX: Final = {prefix: cls for cls in RECORD_TYPES for prefix in cls.PREFIXES}


def _split(key: str) -> tuple[type[ConfigRecord], str, str] | None:
    """Split a key into type, prefix and rest; None for an unknown key. No prefix is the beginning of another.

    A key whose name no Kafka request or database column can hold counts as unknown: nothing could be done about it.
    """
    for prefix, cls in _BY_PREFIX.items():
        if key.startswith(prefix):
            rest = key[len(prefix) :]
            return None if is_long(cls.connector_in(rest) or rest) else (cls, prefix, rest)
    return None


def connector_of(key: bytes) -> ConnectorName | None:
    """Return the connector that a config topic key belongs to; None if it belongs to none."""
    try:
        parts = _split(key.decode())
    except UnicodeDecodeError:
        return None
    return parts[0].connector_in(parts[2]) if parts else None


def tombstones_of(connector: ConnectorState) -> list[ConfigRecord]:
    """Return the tombstones of what a connector's deletion removes beside its configuration and target state."""
    return [tombstone for cls in RECORD_TYPES if (tombstone := cls.tombstone_of(connector)) is not None]


def decode(key: bytes | None, value: bytes | None) -> ConfigRecord:
    """Decode a config topic record. Raises `Unreadable` if the value under a known key cannot be read."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return UnknownKey(shorten(repr(key)))
    parts = _split(text)
    if parts is None:
        return UnknownKey(shorten(text))
    cls, prefix, rest = parts
    try:
        return cls.decode(prefix, rest, value) or UnknownKey(text)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        content = "nothing" if value is None else f"{len(value)} bytes"
        raise Unreadable(f"key {text!r} holds {content} that cannot be read: {error}") from error


def encode(record: ConfigRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a config topic record. Raises ValueError for `UnknownKey`."""
    return record.encode()
