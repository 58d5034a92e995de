"""A consumer that is told its partitions: no group, no commits, committed records only."""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, TopicPartition

from fencing.errors import Fatal, Fenced, Retriable
from fencing.kafka.closing import Gate
from fencing.kafka.settings import Connection
from fencing.kafka.translation import kafka_errors, translate


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One committed record of a topic. `timestamp_ms`: -1 where the broker knows none."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class PartitionReader:
    """Reads the given partitions of a topic from the given offsets.

    `positions` holds the next offset per partition. The client's own position stands still before aborted records and
    markers; its end-of-partition events tell how far it has really read, so they are taken in.
    """

    def __init__(
        self, connection: Connection, topic: str, start: Mapping[int, int], *, fetch_wait_ms: int = 500
    ) -> None:
        """`fetch_wait_ms`: how long the broker holds an empty fetch back, and so an end-of-partition event."""
        self.topic = topic
        self._gate = Gate(f"The reader of topic {topic}")
        with kafka_errors(f"opening topic {topic}"):
            self._consumer = Consumer(
                connection.for_reading(
                    group_id=f"{connection.client_id}-reader",
                    enable_auto_commit=False,
                    enable_auto_offset_store=False,
                    enable_partition_eof=True,
                    isolation_level="read_committed",
                    auto_offset_reset="earliest",
                    # Many readers live in one process, most of them idle.
                    queued_max_messages_kbytes=4096,
                    fetch_wait_max_ms=fetch_wait_ms,
                )
            )
            self.move(start)

    def move(self, positions: Mapping[int, int]) -> None:
        """Go on from other offsets."""
        self.positions = dict(positions)
        with self._gate:
            self._consumer.assign([TopicPartition(self.topic, p, offset) for p, offset in positions.items()])

    def poll(self, timeout: float, limit: int) -> list[LogRecord]:
        """At most `limit` records; empty after `timeout` seconds without any, or when only the position moved."""
        with self._gate, kafka_errors(f"reading topic {self.topic}"):
            # `consume` waits its whole time out for `limit` messages; so one wait for the first, then what is there.
            first = self._consumer.poll(timeout)
            messages = [] if first is None else [first, *self._consumer.consume(max(1, limit - 1), 0)]
        records: list[LogRecord] = []
        for message in messages:
            error: KafkaError | None = message.error()
            partition, offset = message.partition(), message.offset()
            if partition is None or offset is None:
                continue
            if error is None:
                self.positions[partition] = offset + 1
                _, timestamp = message.timestamp()
                records.append(LogRecord(partition, offset, message.key(), message.value(), timestamp))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.positions[partition] = max(self.positions[partition], offset)
            else:
                raised = translate(error, f"reading topic {self.topic}")
                if isinstance(raised, Fatal | Fenced) and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise raised
                if isinstance(raised, Retriable):
                    continue  # the client goes on by itself
                raise raised
        return records

    def close(self) -> None:
        """Let the client go. Any thread may call it; a `poll` under way ends first."""
        self._gate.close(self._consumer.close)
