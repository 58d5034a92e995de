"""Checks regularly whether topics still have their ids. It never waits for a broker."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.admin_clients import admin_client
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors

EVERY_SECONDS = 3.0
_ANSWER_SECONDS = 5.0
_SURE = 2
"""How many checks in a row must agree: a broker that has just started may not know each topic yet."""


class TopicWatch:
    """One thread calls `look` often. topic_ids: the id of each topic by name."""

    def __init__(self, connection: Connection, topic_ids: Mapping[str, str], every: float = EVERY_SECONDS) -> None:
        self._connection = connection
        self._topic_ids = dict(topic_ids)
        self._every = every
        self._client: AdminClient | None = None
        self._futures: Mapping[str, Future[Any]] = {}
        self._next = 0.0
        self._odd: dict[str, str | None] = {}
        self._times = 0

    def look(self, now: float) -> Mapping[str, str | None]:
        """Return the topics that certainly differ with their id, None for a missing one. now: monotonic seconds."""
        if self._futures:
            if all(future.done() for future in self._futures.values()):
                self._take(self._futures)
                self._futures, self._client = {}, None
        elif now >= self._next and self._topic_ids:
            self._next = now + self._every
            with kafka_errors("describing topics"):
                self._client = admin_client(self._connection)  # kept: its answers go with it
                futures = self._client.describe_topics(
                    TopicCollection(list(self._topic_ids)), request_timeout=_ANSWER_SECONDS
                )
            self._futures = futures
        return self._odd if self._times >= _SURE else {}

    def _take(self, answers: Mapping[str, Future[Any]]) -> None:
        odd: dict[str, str | None] = {}
        for name, future in answers.items():
            try:
                with kafka_errors(f"describing topic {name}"):
                    topic_id: str | None = str(future.result().topic_id)
            except FencingError as error:
                if error.code != "UNKNOWN_TOPIC_OR_PART":
                    return  # no answer, or no permission: nothing is known
                topic_id = None
            if topic_id != self._topic_ids[name]:
                odd[name] = topic_id
        self._times = self._times + 1 if odd and odd == self._odd else int(bool(odd))
        self._odd = odd
