"""A producer without transactions, for worker modes in which tasks are at least once.

Idempotent, with all in-sync replicas and endless retries: what is sent again arrives neither twice nor out of order
while this producer lives. (Kafka Connect sends with one request in flight and idempotence off, for the sake of brokers
before 2.8, which ask a right of their own for it; its order is the same, and its retries may write a record twice.)
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.closing import drop
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.translation import kafka_errors, translate

log = logging.getLogger(__name__)

Delivered = Callable[[FencingError | None], None]
"""Told the fate of one record: None when the broker has acknowledged it."""


class IdempotentProducer:
    """Not shared between threads: deliveries are told inside `serve`, on the caller's thread."""

    def __init__(self, connection: Connection, overrides: Mapping[str, object] | None = None) -> None:
        """`overrides`: librdkafka's names; they may lower the guarantees, as in Kafka Connect."""
        settings = connection.librdkafka(
            enable_idempotence=True,
            acks="all",
            linger_ms=5,
            queue_buffering_max_kbytes=32 * 1024,
            queue_buffering_max_messages=100_000,
            batch_size=256 * 1024,
            compression_type="none",
            message_timeout_ms=0,  # endless
            partitioner="murmur2_random",  # Java's, so that keys go where other writers put them
        )
        settings |= overrides or {}
        if str(settings.get("acks", "all")).lower() not in ("all", "-1"):
            settings["enable.idempotence"] = False
        with kafka_errors("creating the producer"):
            self._producer = Producer(settings, logger=log)

    def reporting(self, delivered: Delivered) -> Callable[..., None]:
        """A `produce(topic, value, key, partition, …)` whose records report to `delivered`, one call each.

        Raises BufferError where the queue is full.
        """
        produce = self._producer.produce

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            delivered(None if error is None else translate(error, f"delivering a record to {message.topic()}"))

        def produce_with_report(
            topic: str,
            value: bytes | None = None,
            key: bytes | None = None,
            partition: int = -1,
            _callback: None = None,
            _on_delivery: None = None,
            *rest: Any,
        ) -> None:
            produce(topic, value, key, partition, on_delivery, None, *rest)

        return produce_with_report

    def serve(self, seconds: float) -> None:
        """Hear of deliveries: at most `seconds` where none has come yet."""
        with kafka_errors("producing"):
            self._producer.poll(seconds)

    def close(self) -> None:
        """Drop what is queued, and let the client go. Records in flight may still arrive."""
        self._producer = drop(self._producer, log)
