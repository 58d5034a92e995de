"""Where partitions of many topics end, for both kinds of readers."""

from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.admin import _asking
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.translation import kafka_errors

_Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Ends:
    """stable: the last stable offset, where readers of committed records wait; end: where the others are."""

    stable: int
    end: int


def ends_of(connection: Connection, places: Collection[_Where], deadline: Deadline) -> dict[_Where, Ends]:
    """Of those partitions that are there."""
    with _asking(connection, "asking for the ends of partitions") as client:
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
        # The stable ones first: an end that is asked for later is no smaller.
        stable = client.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=seconds)
        stable_offsets = {place: future.exception() or future.result().offset for place, future in stable.items()}
        end = client.list_offsets(latest, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=seconds)
        found = {}
        for place, future in end.items():
            try:
                with kafka_errors(f"asking for the end of {place.topic}-{place.partition}"):
                    offset = stable_offsets[place]
                    if isinstance(offset, BaseException):
                        raise offset
                    found[(place.topic, place.partition)] = Ends(offset, future.result().offset)
            except FencingError as error:
                if error.code != "UNKNOWN_TOPIC_OR_PART":
                    raise
        return found
