"""Requests the offsets of a topic's partitions: the first, the last stable one, the end, or those at a time."""

from collections.abc import Sequence
from enum import Enum

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    OffsetSpec,
)

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.admin_clients import admin_client, asking
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.list_offsets import list_offsets


class OffsetKind(Enum):
    """A place in a partition: its first offset, the last stable one, and the read_uncommitted end."""

    FIRST = "first"
    STABLE = "stable"
    END = "end"


def offsets_at(
    connection: Connection, topic: str, partitions: Sequence[int], place: OffsetKind, deadline: Deadline
) -> dict[int, int]:
    """Return the offset of this place in each partition."""
    spec = OffsetSpec.earliest() if place is OffsetKind.FIRST else OffsetSpec.latest()  # type: ignore[no-untyped-call]
    level = IsolationLevel.READ_COMMITTED if place is OffsetKind.STABLE else IsolationLevel.READ_UNCOMMITTED
    specs = {TopicPartition(topic, partition): spec for partition in partitions}
    while True:
        try:
            with asking(connection, f"asking for the {place.value} offset of topic {topic}") as client:
                futures = list_offsets(client, specs, level, max(0.5, deadline.slice(5.0)))
                return {tp.partition: future.result().offset for tp, future in futures.items()}
        except Retriable:
            if deadline.expired:
                raise
            admin_client(connection).poll(deadline.slice(0.05))


def offsets_since(
    connection: Connection, topic: str, partitions: Sequence[int], time_ms: int, deadline: Deadline
) -> dict[int, int]:
    """Return the offset of each partition's first record at or after a time (ms since the epoch); -1 for none."""
    specs = {TopicPartition(topic, partition): OffsetSpec.for_timestamp(time_ms) for partition in partitions}
    with asking(connection, f"asking for the offsets of topic {topic} at a time") as client:
        futures = list_offsets(client, specs, IsolationLevel.READ_UNCOMMITTED, max(0.5, deadline.slice(5.0)))
        return {tp.partition: future.result().offset for tp, future in futures.items()}


def end_offsets(connection: Connection, topic: str, partitions: Sequence[int], deadline: Deadline) -> dict[int, int]:
    """Return the read_uncommitted end offset of each partition (invariant 6)."""
    return offsets_at(connection, topic, partitions, OffsetKind.END, deadline)
