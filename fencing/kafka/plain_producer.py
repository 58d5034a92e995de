"""A producer without transactions, for records that may be written twice. Each call waits for the brokers."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.client_pool import drop
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors, translate
from ringfence.fencing.kafka.report_producer import QueueFull, queue

log = logging.getLogger(__name__)


class PlainProducer:
    """An idempotent producer with `acks=all`. Threads must not write with it at the same time."""

    def __init__(self, connection: Connection, partition_of: Callable[[bytes], int] = lambda _: -1) -> None:
        """partition_of: by a record's key; -1 leaves the choice to the partitioner."""
        self._partition_of = partition_of
        with kafka_errors("creating a producer"):
            settings = connection.for_writing(
                linger_ms=0,
                queue_buffering_max_kbytes=4096,
                message_timeout_ms=20_000,
                partitioner="murmur2_random",
            )
            copies = logging.getLogger("ringfence.copies")
            self._producer = connection.create(lambda: Producer(settings, logger=copies))

    def write(
        self,
        topic: str,
        records: Sequence[tuple[bytes, bytes | None]],
        deadline: Deadline,
        last: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Write (key, value) pairs in order. Raises an error unless all are acknowledged before `deadline`.

        last: headers of the last record.
        """
        errors: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        doing = f"writing topic {topic}"

        def make_room() -> None:
            if errors:
                raise translate(errors[0], doing)
            if deadline.expired:
                raise QueueFull(f"{doing}: the brokers did not acknowledge what came before in time")
            self._producer.poll(deadline.slice(0.05))

        with kafka_errors(doing):
            for number, (key, value) in enumerate(records, 1):
                if errors:
                    break
                headers: Any = list(last) if number == len(records) else []
                place = self._partition_of(key)
                queue(
                    partial(self._producer.produce, topic, value, key, place, on_delivery, headers=headers), make_room
                )
            left = self._producer.flush(max(0.01, deadline.remaining))
        if errors:
            raise translate(errors[0], doing)
        if left:
            raise Retriable(f"{doing}: {left} records were not acknowledged in time")

    def close(self) -> None:
        """Drop queued records and close the client."""
        self._producer = drop(self._producer, log)
