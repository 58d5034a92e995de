"""Encodes and decodes the keys and values of `__share_group_state` as Kafka 4.3 writes them. Pure.

Keys: int16 kind (0 ShareSnapshot, 1 ShareUpdate), then the group as a string with an int16 length, the topic id (16
bytes) and an int32 partition. Values: int16 version 0, then the fields of `ShareSnapshot` and `ShareUpdate` in the
flexible form (KIP-482): a varint length before the batches, tagged fields behind each structure. Tag 0 is the delivery
complete count (KIP-1226), which older brokers leave out. A tombstone under a snapshot's key: the state was deleted.
"""

import base64
import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from ringfence.fencing.share.share_partition.state_ranges import Batch, Batches, RecordState

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
