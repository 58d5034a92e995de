"""Requests the last stable offsets of many partitions. It waits for brokers only if it does not know the leaders."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.admin_clients import admin_client, retire
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors
from ringfence.fencing.kafka.list_offsets import list_offsets

_ANSWER_SECONDS = 5.0
_LEADERS_SECONDS = 1.0


class StableEnds:
    """One request, and later its result or its error."""

    def __init__(self, connection: Connection, partitions: Mapping[str, Sequence[int]]) -> None:
        """partitions: of each topic. Raises `FencingError` if no client can be created."""
        self._connection = connection
        spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        specs = {TopicPartition(topic, one): spec for topic, ones in partitions.items() for one in ones}
        with kafka_errors("asking for stable offsets"):
            self._client: AdminClient = admin_client(connection)  # kept, since its responses are lost with it
            self._answers: Mapping[TopicPartition, Future[Any]] = list_offsets(
                self._client, specs, IsolationLevel.READ_COMMITTED, _ANSWER_SECONDS, _LEADERS_SECONDS
            )

    def is_answered(self) -> bool:
        """Return whether `result` returns at once."""
        return all(future.done() for future in self._answers.values())

    def result(self) -> dict[tuple[str, int], int]:
        """Return the last stable offset of each (topic, partition). Raises `FencingError` without all responses."""
        try:
            return self._result()
        except Retriable:
            retire(self._connection, self._client)
            raise

    def _result(self) -> dict[tuple[str, int], int]:
        with kafka_errors("asking for stable offsets"):
            return {(tp.topic, tp.partition): future.result().offset for tp, future in self._answers.items()}
