"""Encodes and decodes the keys and values of `__share_group_state` as Kafka 4.3 writes them, and folds them, read in
order, to the state of every share-partition, now and after each record. Pure.

It also has the share coordinator's part: what it writes when a leader sends a change, and when it takes a snapshot.
`StateTable` folds a whole topic; `replay` is the timeline of one share-partition.

Keys: int16 kind (0 ShareSnapshot, 1 ShareUpdate), then the group as a string with an int16 length, the topic id (16
bytes) and an int32 partition. Values: int16 version 0, then the fields of `ShareSnapshot` and `ShareUpdate` in the
flexible form (KIP-482): a varint length before the batches, tagged fields behind each structure. Tag 0 is the delivery
complete count (KIP-1226), which older brokers leave out. A tombstone under a snapshot's key: the state was deleted.
"""

import base64
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ringfence.fencing.share.share_partition.state_machine import (
    Batch,
    Batches,
    Change,
    RecordState,
    SharePartition,
    fill,
    merge,
    prune,
)

STATE_TOPIC: Final = "__share_group_state"

_SNAPSHOT, _UPDATE = 0, 1
_VERSION: Final = 0
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_SNAPSHOT_HEAD: Final = struct.Struct(">iiiqqq")
_UPDATE_HEAD: Final = struct.Struct(">iiq")
_BATCH: Final = struct.Struct(">qqbh")
_COMPLETE_TAG: Final = 0


class StateKey(NamedTuple):
    """The share-partition of a state. topic_id: as Kafka's tools print it (22 characters, base64)."""

    group_id: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class ShareSnapshot:
    """The whole state of a share-partition. Times in ms since the epoch; -1: unknown."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1
    batches: Batches = ()
    create_timestamp: int = -1
    write_timestamp: int = -1


@dataclass(frozen=True, slots=True)
class ShareUpdate:
    """The ranges that changed. start_offset, leader_epoch: -1 if they are unchanged."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1
    batches: Batches = ()


StateRecord = ShareSnapshot | ShareUpdate


def decode(key: bytes, value: bytes | None) -> tuple[StateKey, StateRecord | None] | None:
    """Return the key and the state; the state is None if it was deleted. Return None for an unknown kind of record,
    which a newer broker may write. Raises ValueError for one that cannot be read.
    """
    try:
        (kind,) = _SHORT.unpack_from(key, 0)
        if kind not in (_SNAPSHOT, _UPDATE):
            return None
        state_key = _decode_key(key)
        if value is None:
            return state_key, None
        (version,) = _SHORT.unpack_from(value, 0)
        if version != _VERSION:
            return None
        return state_key, (_decode_snapshot(value) if kind == _SNAPSHOT else _decode_update(value))
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"A record of {STATE_TOPIC} cannot be read: {error}; key {key[:100]!r}") from error


def encode(key: StateKey, record: StateRecord | None) -> tuple[bytes, bytes | None]:
    """Encode a record as the broker does."""
    kind = _UPDATE if isinstance(record, ShareUpdate) else _SNAPSHOT
    group = key.group_id.encode()
    key_bytes = _SHORT.pack(kind) + _SHORT.pack(len(group)) + group + _id_bytes(key.topic_id) + _INT.pack(key.partition)
    if record is None:
        return key_bytes, None
    if isinstance(record, ShareSnapshot):
        head = _SNAPSHOT_HEAD.pack(
            record.snapshot_epoch,
            record.state_epoch,
            record.leader_epoch,
            record.start_offset,
            record.create_timestamp,
            record.write_timestamp,
        )
    else:
        head = _UPDATE_HEAD.pack(record.snapshot_epoch, record.leader_epoch, record.start_offset)
    return key_bytes, _SHORT.pack(_VERSION) + head + _encode_tail(record)


def topic_id_of(raw: bytes) -> str:
    """Return the id, 16 bytes, as Kafka prints it."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _id_bytes(topic_id: str) -> bytes:
    return base64.urlsafe_b64decode(topic_id + "==")


def _decode_key(key: bytes) -> StateKey:
    (length,) = _SHORT.unpack_from(key, 2)
    at = 4 + length
    group = key[4:at].decode()
    (partition,) = _INT.unpack_from(key, at + 16)
    return StateKey(group, topic_id_of(key[at : at + 16]), partition)


def _decode_snapshot(value: bytes) -> ShareSnapshot:
    snapshot, state, leader, start, create_ms, write_ms = _SNAPSHOT_HEAD.unpack_from(value, 2)
    batches, complete = _decode_tail(value, 2 + _SNAPSHOT_HEAD.size)
    return ShareSnapshot(snapshot, state, leader, start, complete, batches, create_ms, write_ms)


def _decode_update(value: bytes) -> ShareUpdate:
    snapshot, leader, start = _UPDATE_HEAD.unpack_from(value, 2)
    batches, complete = _decode_tail(value, 2 + _UPDATE_HEAD.size)
    return ShareUpdate(snapshot, leader, start, complete, batches)


def _decode_tail(value: bytes, at: int) -> tuple[Batches, int]:
    count, at = _varint(value, at)
    batches: list[Batch] = []
    for _ in range(count - 1):
        first, last, state, delivery_count = _BATCH.unpack_from(value, at)
        _, at = _tags(value, at + _BATCH.size)
        batches.append(Batch(first, last, RecordState(state), delivery_count))
    tags, _ = _tags(value, at)
    complete = _INT.unpack(tags[_COMPLETE_TAG])[0] if _COMPLETE_TAG in tags else -1
    return tuple(batches), complete


def _encode_tail(record: StateRecord) -> bytes:
    batches = b"".join(
        _BATCH.pack(one.first, one.last, one.state, one.delivery_count) + b"\0" for one in record.batches
    )
    complete = record.delivery_complete_count
    tags = b"\0" if complete == -1 else bytes((1, _COMPLETE_TAG, _INT.size)) + _INT.pack(complete)
    return _pack_varint(len(record.batches) + 1) + batches + tags


def _tags(value: bytes, at: int) -> tuple[dict[int, bytes], int]:
    count, at = _varint(value, at)
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, at = _varint(value, at)
        size, at = _varint(value, at)
        tags[tag] = value[at : at + size]
        at += size
    return tags, at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _pack_varint(number: int) -> bytes:
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


UPDATES_PER_SNAPSHOT: Final = 500
"""The brokers' share.coordinator.snapshot.update.records.per.snapshot, by default."""


@dataclass(frozen=True, slots=True)
class PersistedState:
    """A share-partition as the share coordinator knows it.

    start_offset: -1 until its leader has read it for the first time (`share.auto.offset.reset` decides where to start).
    updates: since the newest snapshot.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1
    batches: Batches = ()
    updates: int = 0

    @property
    def partition(self) -> SharePartition:
        """Return what a leader recovers from it: the start moves past finished records, and gaps are available."""
        return SharePartition.recover(self.start_offset, self.batches)

    @property
    def end_offset(self) -> int:
        """One past the last offset with a state: the SPEO, as far as it is persisted."""
        return max(self.start_offset, self.batches[-1].last + 1 if self.batches else 0)

    def strip(self, until: int | None = None) -> Batches:
        """Return the state of every offset from the start to the end (or `until`, exclusive)."""
        if self.start_offset < 0:
            return ()
        end = max(self.end_offset, self.start_offset if until is None else until)
        return fill(self.batches, self.start_offset, end - 1)

    def find_archived(self, delivery_limit: int) -> Batches:
        """Return what was archived after too many deliveries. A record rejected in its last delivery looks the same."""
        return tuple(
            one for one in self.batches if one.state is RecordState.ARCHIVED and one.delivery_count >= delivery_limit
        )


def apply(state: PersistedState | None, record: StateRecord | None) -> PersistedState | None:
    """Return the state after a record. None: there is none, or it was deleted."""
    if record is None:
        return None
    if isinstance(record, ShareSnapshot):
        return PersistedState(
            record.snapshot_epoch,
            record.state_epoch,
            record.leader_epoch,
            record.start_offset,
            record.delivery_complete_count,
            merge((), record.batches),
        )
    if state is None:  # its snapshot is gone already
        state = PersistedState(record.snapshot_epoch, 0, record.leader_epoch, max(0, record.start_offset))
    start = state.start_offset if record.start_offset == -1 else record.start_offset
    return replace(
        state,
        leader_epoch=state.leader_epoch if record.leader_epoch == -1 else record.leader_epoch,
        start_offset=start,
        delivery_complete_count=record.delivery_complete_count,
        batches=prune(merge(state.batches, record.batches), start),
        updates=state.updates + 1,
    )


def write(
    state: PersistedState, change: Change, leader_epoch: int, now_ms: int = -1, limit: int = UPDATES_PER_SNAPSHOT
) -> StateRecord:
    """Return what the share coordinator writes for a leader's change: an update, or a snapshot after `limit`."""
    update = ShareUpdate(
        state.snapshot_epoch,
        leader_epoch,
        change.start_offset,
        change.delivery_complete_count,
        prune(merge((), change.writes), change.start_offset),
    )
    if state.updates < limit:
        return update
    next_state = apply(state, update)
    assert next_state is not None
    return ShareSnapshot(
        state.snapshot_epoch + 1,
        state.state_epoch,
        leader_epoch,
        next_state.start_offset,
        next_state.delivery_complete_count,
        next_state.batches,
        now_ms,
        now_ms,
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the topic, with its offset. record: None for a tombstone."""

    offset: int
    timestamp_ms: int
    key: StateKey
    record: StateRecord | None

    @property
    def batches(self) -> Batches:
        """The ranges that it has; for a snapshot, all of them."""
        return () if self.record is None else self.record.batches


def read(offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> Entry | None:
    """Parse a record; None for an unknown kind. Raises ValueError for one that cannot be read."""
    pair = None if key is None else decode(key, value)
    return None if pair is None else Entry(offset, timestamp_ms, *pair)


def replay(entries: Iterable[Entry]) -> Iterator[tuple[Entry, PersistedState | None]]:
    """Yield the timeline of one share-partition: each of its records with the state after it."""
    state: PersistedState | None = None
    for entry in entries:
        state = apply(state, entry.record)
        yield entry, state


@dataclass(slots=True)
class StateTable:
    """The states of all share-partitions. Give it the records of each partition of the topic in order."""

    states: dict[StateKey, PersistedState] = field(default_factory=dict)

    def take(self, entry: Entry) -> PersistedState | None:
        """Apply the next record. Return the state after it."""
        state = apply(self.states.get(entry.key), entry.record)
        if state is None:
            self.states.pop(entry.key, None)
        else:
            self.states[entry.key] = state
        return state

    def of_group(self, group_id: str) -> dict[StateKey, PersistedState]:
        """Return the share-partitions of one group."""
        return {key: state for key, state in self.states.items() if key.group_id == group_id}


def find_first_needed(entries: Iterable[Entry]) -> int | None:
    """Return the first offset of a partition of the topic that is still needed; earlier records may be removed.

    It is the earliest of the newest snapshots of all share-partitions that are not deleted (brokers delete what is
    before it with DeleteRecords). None: nothing is needed.
    """
    newest: dict[StateKey, int] = {}
    for entry in entries:
        if entry.record is None:
            newest.pop(entry.key, None)
        elif isinstance(entry.record, ShareSnapshot) or entry.key not in newest:
            newest[entry.key] = entry.offset
    return min(newest.values(), default=None)
