"""A producer for reports: best effort, never in the way of the data."""

import logging

from confluent_kafka import KafkaError, Message, Producer

from ringfence.fencing.kafka.closing import Closed, drop
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.translation import kafka_errors

log = logging.getLogger(__name__)


class ReportProducer:
    """Idempotent and non-transactional. Thread-safe.

    A report that cannot be queued or delivered is logged and dropped: the data does not wait for it.
    """

    def __init__(self, connection: Connection) -> None:
        with kafka_errors("creating the reports' producer"):
            self._producer: Producer | Closed = Producer(
                connection.librdkafka(
                    enable_idempotence=True,
                    linger_ms=2,
                    queue_buffering_max_kbytes=2048,
                    message_timeout_ms=60_000,
                    partitioner="murmur2_random",
                ),
                logger=logging.getLogger("ringfence.reports"),
            )

    def send(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Queue one report."""
        producer = self._producer  # another thread may close it in the meantime
        if isinstance(producer, Closed):
            log.debug("A report to %s is dropped: it comes after the end of reporting", topic)
            return
        try:
            producer.produce(topic, value, key, on_delivery=_on_delivery)
        except BufferError:
            log.warning("A report to %s is dropped: the queue is full because Kafka does not answer", topic)
        producer.poll(0)

    def flush(self, seconds: float) -> None:
        """Wait for what is queued, at most `seconds`."""
        producer = self._producer
        if not isinstance(producer, Closed):
            with kafka_errors("sending reports"):
                producer.flush(seconds)

    def close(self) -> None:
        """Drop what is queued (`flush` first), and let the client go. Later reports are dropped."""
        self._producer = drop(self._producer, log)


def _on_delivery(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        log.warning("A report to %s is lost: %s", message.topic(), error)
