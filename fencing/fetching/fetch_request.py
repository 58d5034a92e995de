"""The Fetch request, and its response, without a fetch session. Pure."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from ringfence.fencing.transactions.messages import ErrorResponse, Place
from ringfence.fencing.transactions.wire import NO_TAGS, Reader, array, i32, i64, string

READ_UNCOMMITTED, READ_COMMITTED = b"\0", b"\1"
_BY_ID_FROM: Final = 13
_REPLICA_UP_TO: Final = 14
_FIXED: Final = struct.Struct(">ihqqq")
"""Partition, error, high watermark, last stable offset, log start offset."""
_DIVERGING: Final = 0
_CONSUMER: Final = i32(-1)
_NO_SESSION: Final = i32(0) + i32(-1)


@dataclass(frozen=True, slots=True)
class Position:
    """What to read of a partition. offset: of the first record; leader_epoch, last_epoch: that of the leader as it is
    known, and of the last batch that was read, -1 if they are not known: leaders check both.
    """

    offset: int
    leader_epoch: int = -1
    last_epoch: int = -1


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """aborted: producer ids with the first offsets of their aborted transactions; preferred: another replica to read
    from, -1 for none; diverges: whether the leader's log has other records before the position.
    """

    error: int
    aborted: Sequence[tuple[int, int]] = ()
    preferred: int = -1
    records: bytes | memoryview = field(default=b"", repr=False)
    diverges: bool = False


@dataclass(frozen=True, slots=True)
class FetchResponse(ErrorResponse):
    partitions: Mapping[Place, FetchedPartition]


@dataclass(frozen=True, slots=True)
class Fetch:
    """Asks a leader for record batches. topic_ids: of all the topics; versions above 12 need them.

    wait_ms: how long the leader waits for `min_bytes`; max_bytes, partition_bytes: how much it returns at most of all
    and of each partition, but at least one batch.
    """

    api: ClassVar = 1
    versions: ClassVar = (12, 16)
    positions: Mapping[Place, Position]
    topic_ids: Mapping[str, bytes]
    isolation: bytes
    wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_bytes: int
    rack: str = ""

    def encode(self, version: int) -> list[bytes]:
        topics: dict[str, list[bytes]] = {}
        for (topic, partition), one in self.positions.items():
            head = i32(partition) + i32(one.leader_epoch) + i64(one.offset) + i32(one.last_epoch)
            topics.setdefault(topic, []).append(head + i64(-1) + i32(self.partition_bytes) + NO_TAGS)
        by_id = version >= _BY_ID_FROM
        names = {topic: self.topic_ids[topic] if by_id else string(topic) for topic in topics}
        return [
            _CONSUMER if version <= _REPLICA_UP_TO else b"",
            i32(self.wait_ms) + i32(self.min_bytes) + i32(self.max_bytes) + self.isolation + _NO_SESSION,
            array([names[topic] + array(partitions) + NO_TAGS for topic, partitions in topics.items()]),
            array([]) + string(self.rack) + NO_TAGS,
        ]

    def decode(self, version: int, reader: Reader) -> FetchResponse:
        throttle, error = reader.i32(), reader.i16()
        reader.i32()
        names = {number: name for name, number in self.topic_ids.items()}
        partitions: dict[Place, FetchedPartition] = {}

        def read_topic() -> None:
            topic = names.get(reader.uuid(), "") if version >= _BY_ID_FROM else reader.text()

            def read_partition() -> None:
                number, code, *_ = reader.fields(_FIXED)
                aborted = reader.array(lambda: (reader.i64(), reader.i64(), reader.tags())[:2])
                preferred, records = reader.i32(), reader.view()
                diverges = _DIVERGING in reader.tags()
                partitions[topic, number] = FetchedPartition(code, aborted, preferred, records, diverges)

            reader.array(read_partition)
            reader.tags()

        reader.array(read_topic)
        return FetchResponse(throttle, error, partitions)
