"""Reads a topic, or follows one of its partitions, with its own fetch requests: the batches with their producers and
control records.

confluent-kafka's consumer returns neither: with read_uncommitted it leaves out markers, with read_committed it stops at
the oldest open transaction. The requests go to the partition leaders, without a fetch session, with the same address
and credentials as all others.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafka.errors import BrokerResponseError, KafkaError, for_code
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.record.memory_records import MemoryRecords

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import Isolation, PartitionReader
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from ringfence.fencing.kafka.record_batches import Batch, parse

_WITH_NAMES: Final = 12  # newer versions identify topics by their id
_BYTES: Final = 1024 * 1024


def make_fetch(topic: str, partition: int, position: int, wait_ms: int) -> FetchRequest:
    """Return a request for everything from `position` on, with aborted and control records, without a fetch session."""
    fetch_partition = FetchRequest.FetchTopic.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=position,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_BYTES,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[fetch_partition])],
        forgotten_topics_data=[],
        rack_id="",
        min_version=4,
        max_version=_WITH_NAMES,
    )


async def find_leaders(client: PythonClient, topic: str, partitions: Collection[int]) -> dict[int, int]:
    """Return the leaders of these partitions; a partition without a leader is left out."""
    request_topic = MetadataRequest.MetadataRequestTopic(name=topic)
    answer = await client.send(MetadataRequest(topics=[request_topic], allow_auto_topic_creation=False))
    return {
        partition.partition_index: int(partition.leader_id)
        for each in answer.topics
        for partition in each.partitions
        if partition.partition_index in partitions and partition.leader_id >= 0
    }


_WAIT_MS: Final = 100
_IN_FLIGHT: Final = 100
_BOOTSTRAP_MS: Final = 5000
_ASKED_MS: Final = 10_000
_AGAIN_SECONDS: Final = 0.1


def _open_client(connection: Connection) -> PythonClient:
    """Connect. Raises `Retriable` if no broker answers, `Fatal` if the settings cannot be used."""
    where = connection.bootstrap
    try:
        return PythonClient(
            **connection.kafka_python(),
            max_in_flight_requests_per_connection=_IN_FLIGHT,
            bootstrap_timeout_ms=_BOOTSTRAP_MS,
            request_timeout_ms=_ASKED_MS,
        )
    except KafkaError as error:
        raise Retriable(f"No broker of {where} answers: {type(error).__name__}. It is tried again") from error
    except (OSError, ValueError) as error:
        raise Fatal(f"The settings for {where} cannot be used: {type(error).__name__}") from error


@dataclass(slots=True)
class _Stretch:
    """The position in one partition, and the end of the reading."""

    position: int
    end: int


class RawFetcher:
    """Reads one topic. Use as a context manager. Raises `Retriable` (no answer), `Fatal` (refused)."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._where = connection.bootstrap
        self._topic = topic
        self._admin = _open_client(connection)

    def __enter__(self) -> "RawFetcher":
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def read(
        self,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        deadline: Deadline,
        take: Callable[[int, Batch], None],
    ) -> None:
        """Pass each batch between a partition's start and end to `take`, in order within the partition.

        The first may begin before the start. An end must not be after the read_uncommitted end offset.
        """
        stretches = {partition: _Stretch(start, ends[partition]) for partition, start in starts.items()}
        while left := {number: one for number, one in stretches.items() if one.position < one.end}:
            if not self._round(left, take):
                if deadline.expired:
                    behind = {number: (one.position, one.end) for number, one in left.items()}
                    raise Retriable(
                        f"Topic {self._topic} could not be read to its end in time: partition: (position, end) "
                        f"{behind}. Its leaders do not answer; it is tried again"
                    )
                time.sleep(deadline.slice(_AGAIN_SECONDS))

    def _round(self, left: Mapping[int, _Stretch], take: Callable[[int, Batch], None]) -> bool:
        """Send one request for each partition, in parallel. Return whether any partition advanced."""

        async def call() -> list[tuple[_Stretch, Any, Any]]:
            leaders = await find_leaders(self._admin, self._topic, left)
            futures = [
                (
                    stretch,
                    self._admin.send(
                        make_fetch(self._topic, number, stretch.position, _WAIT_MS), node_id=leaders[number]
                    ),
                )
                for number, stretch in left.items()
                if number in leaders
            ]
            answers = []
            for stretch, future in futures:
                answer = await future
                answers += [
                    (stretch, answer, partition) for topic in answer.responses for partition in topic.partitions
                ]
            return answers

        try:
            answers = self._admin.run(call)
        except BrokerResponseError as error:
            raise self._error(error) from error
        except KafkaError:
            return False  # the broker is unavailable: the next request goes to the leader at that time
        advances = [self._take(stretch, answer, partition, take) for stretch, answer, partition in answers]
        return any(advances)

    def _take(self, one: _Stretch, answer: Any, partition: Any, take: Callable[[int, Batch], None]) -> bool:
        """Take in a response. Return whether the partition advanced."""
        if partition.error_code:
            error = for_code(partition.error_code)
            if not error.retriable:
                raise self._error(error())
            return False
        before = one.position
        for batch in parse(bytes(partition.records or b"")):
            if batch.first >= one.end:
                one.position = one.end
                break
            if batch.last >= one.position:
                take(partition.partition_index, batch)
                one.position = batch.last + 1
        if not partition.records and not answer.throttle_time_ms and partition.high_watermark >= one.end:
            one.position = one.end  # compaction has removed the rest
        return one.position > before

    def _error(self, error: BrokerResponseError) -> Fatal | Retriable:
        name = type(error).__name__
        if error.retriable:
            return Retriable(f"Reading topic {self._topic}: {name}. It is tried again", name)
        if name == "OffsetOutOfRangeError":
            return Retriable(f"Topic {self._topic} was truncated or created again. It is read again", name)
        return Fatal(f"Reading topic {self._topic} at {self._where}: {name}. Grant Read and Describe on it", name)


_FOLLOW_WAIT_MS: Final = 500
_PLAIN: Final = (0, 1)  # not compressed, gzip: only the client has the other codecs


class Entry(NamedTuple):
    """A record, or a marker, which has `committed`. producer_id: -1 outside of transactions."""

    offset: int
    producer_id: int
    key: bytes | None = None
    value: bytes | None = None
    committed: bool | None = None


class PartitionFollower:
    """Reads from `position` on. One thread uses it; any thread may call `close`."""

    def __init__(self, connection: Connection, topic: str, partition: int, position: int) -> None:
        """Connect. Raises `Retriable` if no broker answers, `Fatal` if the settings cannot be used."""
        self._connection = connection
        self._topic = topic
        self._partition = partition
        self.position = position
        self._leader: int | None = None
        self._reader: PartitionReader | None = None
        self._closing = threading.Event()
        self._client = _open_client(connection)

    def poll(self) -> list[Entry]:
        """Return the entries that arrive within half a second. Raises `Retriable` (call it again) and `Fatal`."""
        try:
            response = self._client.run(self._fetch)
        except KafkaError as error:
            self._leader = None
            raise self._error(error) from error
        if response is None:
            return []
        if response.error_code:
            self._leader = None
            raise self._error(for_code(response.error_code)())
        return list(self._entries(bytes(response.records))) if response.records else []

    async def _fetch(self) -> Any:
        if self._leader is None:
            self._leader = await self._find_leader()
        if self._leader is None:
            raise Retriable(f"Partition {self._partition} of topic {self._topic} has no leader now")
        request = make_fetch(self._topic, self._partition, self.position, _FOLLOW_WAIT_MS)
        answer = await self._client.send(request, node_id=self._leader)
        return next((partition for topic in answer.responses for partition in topic.partitions), None)

    async def _find_leader(self) -> int | None:
        leaders = await find_leaders(self._client, self._topic, (self._partition,))
        return leaders.get(self._partition)

    def _entries(self, data: bytes) -> Iterator[Entry]:
        batches = MemoryRecords(data)
        while (batch := batches.next_batch()) is not None:
            after = int(batch.next_offset)
            if after <= self.position:
                continue
            transactional = bool(getattr(batch, "is_transactional", False))
            producer = int(batch.producer_id) if transactional else -1
            if getattr(batch, "is_control_batch", False):
                for record in batch:
                    if record.abort or record.commit:
                        yield Entry(record.offset, producer, committed=bool(record.commit))
            elif batch.compression_type in _PLAIN:
                for record in batch:
                    if record.offset >= self.position:
                        yield Entry(record.offset, producer, record.key, record.value)
            else:
                for offset, (key, value) in self._read(int(batch.base_offset), after).items():
                    yield Entry(offset, producer, key, value)
            self.position = after

    def _read(self, first: int, after: int) -> Mapping[int, tuple[bytes | None, bytes | None]]:
        """Return the records of a batch whose codec only confluent-kafka has."""
        first = max(first, self.position)
        start = {self._partition: first}
        if self._reader is None:
            self._reader = PartitionReader(
                self._connection, self._topic, start, isolation=Isolation.UNCOMMITTED, fetch_wait_ms=10
            )
        else:
            self._reader.move(start)
        records: dict[int, tuple[bytes | None, bytes | None]] = {}
        while self._reader.positions[self._partition] < after:
            if self._closing.is_set():
                raise Retriable("The reading has ended")
            for record in self._reader.poll(0.5, after - first):
                if record.offset < after:
                    records[record.offset] = (record.key, record.value)
        return records

    def _error(self, error: Exception) -> FencingError:
        name = type(error).__name__
        text = f"Following topic {self._topic}: {name}"
        if name == "OffsetOutOfRangeError":
            return Fatal(f"{text}. It was truncated or created again; it is read from its beginning", name)
        if getattr(error, "retriable", True):
            return Retriable(f"{text}. It is tried again", name)
        return Fatal(f"{text}. Grant Read and Describe on it", name)

    def close(self) -> None:
        self._closing.set()
        self._client.close()
        if self._reader is not None:
            self._reader.close()
