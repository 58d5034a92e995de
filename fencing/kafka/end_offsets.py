"""Requests the end offsets of partitions of many topics, for both isolation levels."""

from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.admin_clients import asking
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors
from ringfence.fencing.kafka.list_offsets import list_offsets

_Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Ends:
    """stable: the last stable offset, the end for read_committed; end: the end for read_uncommitted."""

    stable: int
    end: int


def ends_of(connection: Connection, places: Collection[_Where], deadline: Deadline) -> dict[_Where, Ends]:
    """Return the ends of those partitions that exist."""
    with asking(connection, "asking for the ends of partitions") as client:
        every = client.list_topics(timeout=max(0.5, deadline.slice(5.0))).topics
        there = [
            TopicPartition(topic, number)
            for topic, number in sorted(places)
            if topic in every and every[topic].error is None and number in every[topic].partitions
        ]
        if not there:
            return {}
        seconds = max(0.5, deadline.slice(5.0))
        spec: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        latest = dict.fromkeys(there, spec)
        # The stable offsets first: an end that is requested later is not smaller.
        stable = list_offsets(client, latest, IsolationLevel.READ_COMMITTED, seconds)
        stable_offsets = {place: future.exception() or future.result().offset for place, future in stable.items()}
        end = list_offsets(client, latest, IsolationLevel.READ_UNCOMMITTED, seconds)
        ends = {}
        for place, future in end.items():
            try:
                with kafka_errors(f"asking for the end of {place.topic}-{place.partition}"):
                    offset = stable_offsets[place]
                    if isinstance(offset, BaseException):
                        raise offset
                    ends[(place.topic, place.partition)] = Ends(offset, future.result().offset)
            except FencingError as error:
                if error.code != "UNKNOWN_TOPIC_OR_PART":
                    raise
        return ends
