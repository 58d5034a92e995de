"""A consumer with fixed partitions, without a group and without commits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.client_pool import Gate
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors, translate

_GATHERED_BYTES: Final = 64 * 1024
_QUEUE_BACKOFF_MS: Final = 10


class Isolation(StrEnum):
    """Which records a reader gets (KIP-98)."""

    COMMITTED = "read_committed"
    """Records of committed transactions, and those without a transaction, up to the last stable offset."""
    UNCOMMITTED = "read_uncommitted"
    """All records, also aborted ones, up to the end."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of a topic. timestamp_ms: -1 if it has none."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]] = ()


def every_key(_key: bytes | None) -> bool:
    """A filter of keys that leaves nothing out."""
    return True


class PartitionReader:
    """Reads the given partitions of a topic from the given offsets.

    `positions` has the next offset per partition. The client's own position stops before aborted records and markers.
    Its end-of-partition events show how far it has really read, so they count, too.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        start: Mapping[int, int],
        *,
        isolation: Isolation = Isolation.COMMITTED,
        fetch_wait_ms: int = 500,
        gather_ms: int = 0,
    ) -> None:
        """fetch_wait_ms: how long the broker delays an empty response, and with it an end-of-partition event.

        gather_ms: in place of it, how long the broker gathers records for a response, unless they are many. Each
        response costs more CPU time than a record: for readers of what many small transactions write.
        """
        self.topic = topic
        self._gate = Gate(f"The reader of topic {topic}")
        with kafka_errors(f"opening topic {topic}"):
            settings = connection.for_reading(
                group_id=f"{connection.client_id}-reader",
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                isolation_level=isolation.value,
                auto_offset_reset="earliest",
                # A process has many readers, most of them idle. The limit is per partition, and librdkafka needs
                # several times as much memory for small records.
                queued_max_messages_kbytes=4096,
                # Once that queue is full, librdkafka asks for no more for a second by default, however fast it is
                # read: the offsets topic then takes four times as long.
                fetch_queue_backoff_ms=_QUEUE_BACKOFF_MS,
                fetch_wait_max_ms=gather_ms or fetch_wait_ms,
                fetch_min_bytes=_GATHERED_BYTES if gather_ms else 1,
            )
            self._consumer = connection.create(lambda: Consumer(settings))
            self.move(start)

    def move(self, positions: Mapping[int, int]) -> None:
        """Continue from other offsets."""
        self.positions = dict(positions)
        with self._gate:
            self._consumer.assign([TopicPartition(self.topic, p, offset) for p, offset in positions.items()])

    def ends(self) -> dict[int, int]:
        """Return the read_uncommitted ends from the brokers' last responses, without those that are not known yet."""
        with self._gate:
            marks = {
                p: self._consumer.get_watermark_offsets(TopicPartition(self.topic, p), cached=True)
                for p in self.positions
            }
        return {p: mark[1] for p, mark in marks.items() if mark[1] >= 0}

    def poll(
        self, timeout: float, limit: int, key_filter: Callable[[bytes | None], bool] = every_key
    ) -> list[LogRecord]:
        """Return at most `limit` records; none after `timeout` seconds without any, or if only the position moved.

        key_filter: takes a key; records for which it returns False are left out.
        """
        return [record_of(message) for message in self.messages(timeout, limit) if key_filter(message.key())]

    def messages(self, timeout: float, limit: int) -> list[Message]:
        """Return the client's own messages, none of them an error, for callers that keep only a few of very many."""
        with self._gate, kafka_errors(f"reading topic {self.topic}"):
            # `consume` waits its full timeout for `limit` messages. So wait for the first, then take what has arrived.
            first = self._consumer.poll(timeout)
            batch = [] if first is None else [first, *self._consumer.consume(max(1, limit - 1), 0)]
        positions = self.positions
        records = []
        for message in batch:
            if message.error() is None:
                positions[message.partition()] = message.offset() + 1  # type: ignore[index, operator]
                records.append(message)
            else:
                self._trouble(message)
        return records

    def _trouble(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is None or partition is None or offset is None:
            return
        if error.code() == KafkaError._PARTITION_EOF:
            self.positions[partition] = max(self.positions[partition], offset)
            return
        trouble = translate(error, f"reading topic {self.topic}")
        if not isinstance(trouble, Retriable):
            raise trouble
        # The client recovers from other errors by itself.

    def close(self) -> None:
        """Close the client, after a running `poll` has ended. Any thread may call it."""
        self._gate.close(self._consumer.close)


def record_of(message: Message) -> LogRecord:
    """Convert a message, which must not be an error."""
    _, timestamp = message.timestamp()
    headers: Any = message.headers() or ()
    return LogRecord(message.partition(), message.offset(), message.key(), message.value(), timestamp, headers)  # type: ignore[arg-type]
