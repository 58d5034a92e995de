"""Asks for the last stable offsets of many partitions without waiting for the brokers' answers."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.admin import _admin, _retire
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.translation import kafka_errors

_ANSWER_SECONDS = 5.0


class StableEnds:
    """One question. Its answer may come, or an error."""

    def __init__(self, connection: Connection, partitions: Mapping[str, Sequence[int]]) -> None:
        """partitions: of each topic. Raises FencingError where no client can be made."""
        self._connection = connection
        spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, one): spec for topic, ones in partitions.items() for one in ones}
        with kafka_errors("asking for stable offsets"):
            self._client: AdminClient = _admin(connection)  # kept: its answers go with it
            self._answers: Mapping[TopicPartition, Future[Any]] = self._client.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ANSWER_SECONDS
            )

    def is_answered(self) -> bool:
        """Whether `result` answers at once."""
        return all(future.done() for future in self._answers.values())

    def result(self) -> dict[tuple[str, int], int]:
        """The last stable offset of each (topic, partition). Raises FencingError where a broker did not answer."""
        try:
            return self._result()
        except Retriable:
            _retire(self._connection, self._client)
            raise

    def _result(self) -> dict[tuple[str, int], int]:
        with kafka_errors("asking for stable offsets"):
            return {(tp.topic, tp.partition): future.result().offset for tp, future in self._answers.items()}
