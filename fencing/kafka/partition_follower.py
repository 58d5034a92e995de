"""Follows one partition: each record with its producer, and each marker, as soon as it is written.

A client's read_uncommitted consumer does not return markers, and a read_committed one stops at the oldest open
transaction. So this sends its own fetch requests, which the broker holds until there are records.
"""

import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafka.errors import KafkaError, for_code
from kafka.record.memory_records import MemoryRecords

from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import Isolation, PartitionReader
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from ringfence.fencing.kafka.raw_fetch import find_leaders, make_fetch

_WAIT_MS: Final = 500
_ASKED_MS: Final = 10_000
_BOOTSTRAP_MS: Final = 5000
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
        try:
            self._client = PythonClient(
                **connection.kafka_python(), bootstrap_timeout_ms=_BOOTSTRAP_MS, request_timeout_ms=_ASKED_MS
            )
        except KafkaError as error:
            raise Retriable(f"No broker of {connection.bootstrap} answers: {type(error).__name__}") from error
        except (OSError, ValueError) as error:
            raise Fatal(f"The settings for {connection.bootstrap} cannot be used: {type(error).__name__}") from error

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
        request = make_fetch(self._topic, self._partition, self.position, _WAIT_MS)
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
