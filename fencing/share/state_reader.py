"""Reads the state of share-partitions from `__share_group_state`: only the newest records, without side effects.

Java's hash of `group:topic id:partition` decides the partition of the topic, and with it the coordinator.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import Isolation, PartitionReader
from ringfence.fencing.kafka.topic_admin import topic_exists, topic_identity
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at
from ringfence.fencing.share.share_partition.state_topic import STATE_TOPIC, Entry, ShareSnapshot, StateKey, read

MOST: Final = 10_000
"""The maximum of records that are read from each partition of the topic, the newest ones."""

_AT_ONCE = 1000


@dataclass(slots=True)
class StateHistory:
    """A share-partition's records in order. whole: its newest snapshot is among them, so the state is known."""

    entries: list[Entry] = field(default_factory=list)
    whole: bool = False


def place_of(key: StateKey, partitions: int) -> int:
    """Return the partition of the topic that has this share-partition's records."""
    text = f"{key.group_id}:{key.topic_id}:{key.partition}".encode("utf-16-be")
    number = 0
    for at in range(0, len(text), 2):
        number = (31 * number + (text[at] << 8 | text[at + 1])) & 0xFFFFFFFF
    hash_code = number - 0x1_0000_0000 if number & 0x8000_0000 else number
    return 0 if hash_code == -0x8000_0000 else abs(hash_code) % partitions


def read_histories(connection: Connection, keys: Collection[StateKey], limit: Deadline) -> dict[StateKey, StateHistory]:
    """Return the histories, up to the current end or the deadline. Raises `FencingError`; ValueError for an unknown
    format.
    """
    histories = {key: StateHistory() for key in keys}
    if not keys or not topic_exists(connection, STATE_TOPIC, limit):
        return histories
    _, partitions = topic_identity(connection, STATE_TOPIC, limit)
    places = sorted({place_of(key, len(partitions)) for key in keys})
    first = offsets_at(connection, STATE_TOPIC, places, OffsetKind.FIRST, limit)
    ends = offsets_at(connection, STATE_TOPIC, places, OffsetKind.END, limit)
    starts = {each: max(first[each], ends[each] - MOST) for each in places if ends[each] > first[each]}
    if not starts:
        return histories
    reader = PartitionReader(connection, STATE_TOPIC, starts, isolation=Isolation.UNCOMMITTED, fetch_wait_ms=50)
    try:
        while not limit.expired and any(reader.positions[each] < ends[each] for each in starts):
            for record in reader.poll(limit.slice(0.2), _AT_ONCE):
                entry = read(record.offset, record.timestamp_ms, record.key, record.value)
                if entry is not None and entry.key in histories:
                    history = histories[entry.key]
                    history.entries.append(entry)
                    history.whole = history.whole or isinstance(entry.record, ShareSnapshot)
    finally:
        reader.close()
    return histories
