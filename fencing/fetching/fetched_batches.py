"""Record batches in a leader's answer: which of them are committed, which can be written as they are, their records.

Pure. A batch goes whole if a producer could have made it: its records follow each other without gaps and have the times
that they say. Its new head has another producer, epoch and sequence number; the checksum covers these and the records,
so that of the records alone is derived from the old one. A byte that was changed on the way is still found.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import ClassVar, Final

import google_crc32c

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.api.fetching import NotFetchable, Run
from ringfence.connectors.api.records import EncodedBatch, RawHeaders
from ringfence.fencing.kafka.record_batches import (
    CODEC,
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    MAGIC_AT,
    TRANSACTIONAL,
    Data,
    Marker,
    read_marker,
    read_varint,
)
from ringfence.fencing.transactions.compression import BY_NUMBER
from ringfence.fencing.transactions.messages import ErrorResponse, Place
from ringfence.fencing.transactions.record_batches import remove_first
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
    from, -1 for none; diverges: whether the leader's log has other records before the position; high_watermark: up to
    which all replicas have the log; stable: the last stable offset, up to which read_committed readers read it.
    """

    error: int
    aborted: Sequence[tuple[int, int]] = ()
    preferred: int = -1
    records: bytes | memoryview = field(default=b"", repr=False)
    diverges: bool = False
    high_watermark: int = -1
    stable: int = -1


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
                number, code, high_watermark, stable, _ = reader.fields(_FIXED)
                aborted = reader.array(lambda: (reader.i64(), reader.i64(), reader.tags())[:2])
                preferred, records = reader.i32(), reader.view()
                diverges = _DIVERGING in reader.tags()
                partitions[topic, number] = FetchedPartition(
                    code, aborted, preferred, records, diverges, high_watermark, stable
                )

            reader.array(read_partition)
            reader.tags()

        reader.array(read_topic)
        return FetchResponse(throttle, error, partitions)


_AFTER_LENGTH: Final = 12
_COVERED_BYTES: Final = 40
"""Of the head, by the checksum."""
_MAGIC: Final = 2
_FEW: Final = 50
_FEW_BYTES: Final = 16 * 1024

MIDST: Final = "midst"
"""Reading begins in its midst."""
GAPS: Final = "gaps"
"""Compaction has removed some of its records; a producer's have no gaps, and brokers do not look closely."""
APPEND_TIME: Final = "append_time"
"""The time of its records is when the broker wrote them; a producer's records have their own."""
NO_TIME: Final = "no_time"
"""Its records have no time, and get that of writing."""
LARGE: Final = "large"
"""It is larger than the producer sends."""
SMALL: Final = "small"
"""Its records are so few that they are better joined with others: each batch of a partition is a request of its own."""


class Fetched:
    """A batch, as part of the bytes that a leader returned. start: the first offset that is wanted."""

    __slots__ = (
        "_crc", "_data", "_end", "_first_ms", "_has_headers", "_newest_ms", "_records_at", "attributes", "count",
        "first", "last", "leader_epoch", "obstacle", "partition", "producer_id", "start", "topic",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, data: Data, at: int, end: int, start: int, most_bytes: int) -> None:
        """most_bytes: of a batch that goes whole."""
        head = HEADER.unpack_from(data, at)
        self.topic = topic
        self.partition = partition
        self.start = start
        self._data = data
        self._records_at = at + HEADER.size
        self._end = end
        self.first, _, self.leader_epoch, _, self._crc, self.attributes, last_delta = head[:7]
        self._first_ms, self._newest_ms, self.producer_id, _, _, self.count = head[7:]
        self.last = self.first + last_delta
        self.obstacle = self._find_obstacle(end - at, most_bytes)
        self._has_headers: bool | None = None

    def _find_obstacle(self, size: int, most_bytes: int) -> str:
        if self.first < self.start:
            return MIDST
        if self.count != self.last - self.first + 1:
            return GAPS
        if self.attributes & LOG_APPEND_TIME:
            return APPEND_TIME
        if self._first_ms <= 0 or self._newest_ms <= 0:
            return NO_TIME
        if size > most_bytes:
            return LARGE
        return SMALL if self.count < _FEW and size < _FEW_BYTES else ""

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def marker(self) -> Marker | None:
        """How it ends its producer's transaction, if it is a control batch that does. Raises `ConnectorError` if it is
        damaged.
        """
        if self.count <= 0:
            return None
        try:
            return read_marker(self._data[self._records_at : self._end])
        except (struct.error, IndexError, ValueError) as error:
            raise self._damage_error("it is no marker") from error

    def check(self) -> None:
        """Raise `ConnectorError` if the checksum shows that the batch is damaged."""
        if google_crc32c.value(bytes(self._data[self._records_at - _COVERED_BYTES : self._end])) != self._crc:
            raise self._damage_error("its checksum is another one")

    def encode_for(self, topic: str) -> EncodedBatch:
        """Return the batch for a topic."""
        data = bytes(self._data[self._records_at : self._end])
        head = google_crc32c.value(bytes(self._data[self._records_at - _COVERED_BYTES : self._records_at]))
        crc = remove_first(self._crc, head, len(data))
        codec = self.attributes & CODEC
        times = self._first_ms, self._newest_ms
        return EncodedBatch(topic, self.partition, self.count, len(data), crc, *times, data, codec)

    @property
    def has_headers(self) -> bool:
        """Whether any of its records has headers. Raises `ConnectorError` for bytes that are no records."""
        if self._has_headers is None:
            try:
                self._has_headers = find_headers(self._records(), self.count)
            except Exception as error:  # also a codec's
                raise self._damage_error(f"{type(error).__name__}") from error
        return self._has_headers

    def add_to(self, run: Run) -> None:
        """Append the wanted records to a run. Raises `ConnectorError` for bytes that are no records."""
        try:
            self._add_to(run)
        except Exception as error:  # also a codec's
            raise self._damage_error(f"{type(error).__name__}") from error

    def _damage_error(self, why: str) -> ConnectorError:
        return ConnectorError(
            f"The record batch with the offsets {self.first} to {self.last} of {self.topic}-{self.partition} is "
            f"damaged ({why}). Check the disk of the source's broker. To pass over it, stop the connector and set its "
            f"offset of this partition to {self.last}."
        )

    def _add_to(self, run: Run) -> None:
        before = len(run.offsets)
        read_records(self._records(), self.count, self.first, self._first_ms, run)
        if self.attributes & LOG_APPEND_TIME:
            run.times[before:] = [self._newest_ms] * self.count
        if self.first < self.start:
            unwanted = slice(before, before + sum(1 for offset in run.offsets[before:] if offset < self.start))
            for column in (run.values, run.keys, run.headers, run.times, run.offsets):
                del column[unwanted]

    def _records(self) -> bytes:
        data = bytes(self._data[self._records_at : self._end])
        codec = self.attributes & CODEC
        return BY_NUMBER[codec].decompress(data) if codec else data


def find_headers(data: bytes, count: int) -> bool:  # noqa: C901 - as below, at half the price
    """Return whether any of a batch's records has headers. Raises ValueError or IndexError for bytes that are none."""
    at = 0
    for _ in range(count):
        number = data[at]
        if number < 0x80:
            at += 1
            end = at + (number >> 1)
        elif data[at + 1] < 0x80:
            end = at + 2 + ((number & 0x7F | data[at + 1] << 7) >> 1)
            at += 2
        else:
            number, at = read_varint(data, at)
            end = at + number
        if data[end - 1]:
            return True  # what ends a record without headers is their number
        if data[at + 1] < 0x80:  # the time, after the attributes
            at += 2
        elif data[at + 2] < 0x80:
            at += 3
        else:
            _, at = read_varint(data, at + 1)
        if data[at] < 0x80:  # the offset
            at += 1
        elif data[at + 1] < 0x80:
            at += 2
        else:
            _, at = read_varint(data, at)
        number = data[at]
        if number == 1:  # no key
            at += 1
        elif number < 0x80:
            at += 1 + (number >> 1)
        else:
            number, at = _read_length(data, at)
            at += number
        number = data[at]
        if number == 1:  # no value
            at += 1
        elif number < 0x80:
            at += 1 + (number >> 1)
        elif data[at + 1] < 0x80:
            at += 2 + ((number & 0x7F | data[at + 1] << 7) >> 1)
        else:
            number, at = _read_length(data, at)
            at += number
        if data[at]:
            return True
        if at + 1 != end:
            raise ValueError("a record has another length than it says")
        at = end
    if at != len(data):
        raise ValueError("there is more than the records")
    return False


def read_records(data: bytes, count: int, first: int, first_ms: int, run: Run) -> None:  # noqa: C901 - the loop over records, without calls that could be spared
    """Append the records of a batch to `run`. first, first_ms: its base offset and base timestamp.

    Most numbers have one byte or two, and longer ones are left to `read_varint`.
    """
    add_value, add_key, add_headers = run.values.append, run.keys.append, run.headers.append
    add_time, add_offset = run.times.append, run.offsets.append
    at = 0
    for _ in range(count):
        number = data[at]
        if number < 0x80:
            at += 1
            end = at + (number >> 1)
        elif data[at + 1] < 0x80:
            number = number & 0x7F | data[at + 1] << 7
            at += 2
            end = at + (number >> 1)
        else:
            number, at = read_varint(data, at)
            end = at + number
        number = data[at + 1]  # after the attributes
        if number < 0x80:
            at += 2
            add_time(first_ms + ((number >> 1) ^ -(number & 1)))
        elif data[at + 2] < 0x80:
            number = number & 0x7F | data[at + 2] << 7
            at += 3
            add_time(first_ms + ((number >> 1) ^ -(number & 1)))
        else:
            number, at = read_varint(data, at + 1)
            add_time(first_ms + number)
        number = data[at]
        if number < 0x80:
            at += 1
            add_offset(first + (number >> 1))
        elif data[at + 1] < 0x80:
            number = number & 0x7F | data[at + 1] << 7
            at += 2
            add_offset(first + (number >> 1))
        else:
            number, at = read_varint(data, at)
            add_offset(first + number)
        number = data[at]
        if number == 1:
            add_key(None)
            at += 1
        else:
            size, at = _read_length(data, at) if number >= 0x80 else (number >> 1, at + 1)
            add_key(data[at : at + size])
            at += size
        number = data[at]
        if number == 1:
            add_value(None)
            at += 1
        else:
            if number < 0x80:
                number >>= 1
                at += 1
            elif data[at + 1] < 0x80:
                number = (number & 0x7F | data[at + 1] << 7) >> 1
                at += 2
            else:
                number, at = _read_length(data, at)
            add_value(data[at : at + number])
            at += number
        if data[at]:
            headers, at = _read_headers(data, at)
            add_headers(headers)
        else:
            add_headers(None)
            at += 1
        if at != end:
            raise ValueError("a record has another length than it says")
    if at != len(data):
        raise ValueError("there is more than the records")


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    size, at = read_varint(data, at)
    if size < 0:
        raise ValueError("a length is negative")
    return size, at


def _read_headers(data: bytes, at: int) -> tuple[RawHeaders, int]:
    number, at = read_varint(data, at)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(number):
        size, at = read_varint(data, at)
        if size < 0:
            raise ValueError("a header has no name")
        name = data[at : at + size].decode(errors="replace")
        size, at = read_varint(data, at + size)
        headers.append((name, data[at : at + size] if size >= 0 else None))
        at += max(0, size)
    return headers, at


def split_batches(topic: str, partition: int, data: Data, start: int, most_bytes: int) -> Iterator[Fetched]:
    """Yield the batches, without those before `start` and an incomplete last one. Raises `NotFetchable` for the formats
    before Kafka 0.11, ValueError for bytes that are no batches.
    """
    at, size = 0, len(data)
    while size - at > MAGIC_AT:
        first, length = struct.unpack_from(">qi", data, at)
        end = at + _AFTER_LENGTH + length
        if data[at + MAGIC_AT] != _MAGIC:
            raise NotFetchable(f"offset {first} of {topic}-{partition} has the message format of Kafka before 0.11")
        if length < HEADER.size - _AFTER_LENGTH:
            raise ValueError(f"a record batch of {length} bytes")
        if end > size:
            return
        batch = Fetched(topic, partition, data, at, end, start, most_bytes)
        if batch.last >= start:
            yield batch
        at = end


def select_committed(batches: Sequence[Fetched], aborted: Sequence[tuple[int, int]]) -> list[Fetched]:
    """Return the batches without control batches and those of aborted transactions.

    aborted: as the leader returns them with these batches: producer ids with the first offsets of their transactions,
    none for a reader of uncommitted records. A transaction reaches up to its producer's next marker.
    """
    ahead = sorted(aborted, key=itemgetter(1))
    aborting: set[int] = set()
    committed, passed = [], 0
    for batch in batches:
        while passed < len(ahead) and ahead[passed][1] <= batch.last:
            aborting.add(ahead[passed][0])
            passed += 1
        if batch.is_control:
            if batch.marker is Marker.ABORT:
                aborting.discard(batch.producer_id)
        elif batch.count > 0 and not (batch.is_transactional and batch.producer_id in aborting):
            committed.append(batch)
    return committed
