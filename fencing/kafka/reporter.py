"""Reports to the status and events topics: best effort, never in the way of the data."""

import logging

from confluent_kafka import KafkaError, Message, Producer

from fencing import events, status
from fencing.clock import SYSTEM_CLOCK, Clock
from fencing.kafka.settings import Connection
from fencing.kafka.translation import kafka_errors

log = logging.getLogger(__name__)


class Reporter:
    """An idempotent, non-transactional producer for reports. Thread-safe.

    A report that cannot be queued or delivered is logged and dropped: the data does not wait for it.
    """

    def __init__(
        self, connection: Connection, status_topic: str, events_topic: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._status_topic = status_topic
        self._events_topic = events_topic
        self._clock = clock
        with kafka_errors("creating the reports' producer"):
            self._producer = Producer(
                connection.librdkafka(
                    enable_idempotence=True,
                    linger_ms=2,
                    queue_buffering_max_kbytes=2048,
                    message_timeout_ms=60_000,
                    partitioner="murmur2_random",
                ),
                logger=logging.getLogger("ringfence.reports"),
            )

    def now_ms(self) -> int:
        """Wall clock, milliseconds."""
        return int(self._clock.wall() * 1000)

    def status(self, record: status.StatusRecord) -> None:
        """Queue a status record."""
        key, value = status.encode(record)
        self._send(self._status_topic, key, value)

    def event(self, type_: str, connector: str = "", **fields: object) -> None:
        """Queue an event; `time_ms` is added."""
        key, value = events.encode({"type": type_, "time_ms": self.now_ms(), "connector": connector, **fields})
        self._send(self._events_topic, key, value)

    def _send(self, topic: str, key: bytes, value: bytes | None) -> None:
        try:
            self._producer.produce(topic, value, key, on_delivery=_delivered)
        except BufferError:
            log.warning("A report to %s is dropped: the queue is full because Kafka does not answer", topic)
        self._producer.poll(0)

    def flush(self, seconds: float) -> None:
        """Wait for what is queued, at most `seconds`."""
        with kafka_errors("sending reports"):
            self._producer.flush(seconds)


def _delivered(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        log.warning("A report to %s is lost: %s", message.topic(), error)
