"""A producer without transactions, for worker modes in which tasks are at least once.

It is idempotent, with `acks=all` and unlimited retries: while it lives, retries neither duplicate nor reorder records.
(Kafka Connect turns idempotence off and has one request in flight, since brokers before 2.8 need another permission for
it. That keeps the order, too, but a retry may write a record twice.)
"""

import logging
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, Message, Producer

from ringfence.connectors.api.records import RawHeaders
from ringfence.connectors.sdk.kafka_settings.java_names import MAX_BLOCK
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.client_pool import drop
from ringfence.fencing.kafka.client_settings import idempotent_settings
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors, translate
from ringfence.fencing.kafka.report_producer import queue

log = logging.getLogger(__name__)

_ROOM_SECONDS = 0.02

OnDelivery = Callable[[FencingError | None], None]
"""Called with the error of one record, or with None if the broker has acknowledged it."""


class IdempotentProducer:
    """Not shared between threads: deliveries are reported inside `serve`, on the caller's thread."""

    def __init__(self, connection: Connection, overrides: Mapping[str, object] | None = None) -> None:
        """overrides: librdkafka's names. As in Kafka Connect, they may weaken the guarantees."""
        settings = idempotent_settings(connection)
        settings |= overrides or {}
        settings.pop(MAX_BLOCK, None)  # of which librdkafka knows nothing: a call never waits
        if str(settings.get("acks", "all")).lower() not in ("all", "-1"):
            settings["enable.idempotence"] = False
        with kafka_errors("creating the producer"):
            self._producer = connection.create(lambda: Producer(settings, logger=log))

    def reporting(self, report: OnDelivery, check: Callable[[], None]) -> Callable[..., None]:
        """Return a function `produce(topic, value, key, partition, timestamp, headers)` that calls `report` with each
        record's delivery.

        While the queue is full, it waits, serves deliveries, and calls `check`, which raises an error to
        give up.
        """
        produce = self._producer.produce

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            report(None if error is None else translate(error, f"delivering a record to {message.topic()}"))

        def make_room() -> None:
            self.serve(_ROOM_SECONDS)
            check()

        def produce_with_report(
            topic: str,
            value: bytes | None,
            key: bytes | None,
            partition: int = -1,
            timestamp: int = 0,
            headers: RawHeaders | None = None,
        ) -> None:
            pairs: list[tuple[str, str | bytes | None]] | None = list(headers) if headers else None
            queue(lambda: produce(topic, value, key, partition, on_delivery, None, max(0, timestamp), pairs), make_room)

        return produce_with_report

    def serve(self, seconds: float) -> None:
        """Report deliveries; wait at most `seconds` for the first one."""
        with kafka_errors("producing"):
            self._producer.poll(seconds)

    def close(self) -> None:
        """Drop queued records and close the client. Records in flight may still arrive."""
        self._producer = drop(self._producer, log)
