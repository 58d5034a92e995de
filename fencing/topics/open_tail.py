"""Reads what is committed between the last stable offset and the end: raw batches, and each producer's markers."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import Isolation, LogRecord, PartitionReader, record_of
from ringfence.fencing.kafka.raw_fetch import RawFetcher
from ringfence.fencing.kafka.record_batches import Batch, Decisions
from ringfence.fencing.kafka.topic_offsets import end_offsets

Positions = Mapping[int, int]
KeyFilter = Callable[[bytes | None], bool]

FETCH_WAIT_MS: Final = 5
MARKER_SECONDS: Final = 0.005


class OpenTail:
    """The open tail of one topic."""

    def __init__(self, connection: Connection, topic: str, partitions: Sequence[int]) -> None:
        self._connection = connection
        self._topic = topic
        self._partitions = partitions

    def read(
        self,
        starts: Positions,
        ends: Positions,
        deadline: Deadline,
        own: int,
        key_filter: KeyFilter,
        most_bytes: int | None = None,
    ) -> list[LogRecord]:
        """Return the committed records between these offsets; of more than `most_bytes` the first ones only."""
        with RawFetcher(self._connection, self._topic) as fetcher:
            while True:
                decisions = {p: Decisions() for p in starts}

                def take(partition: int, batch: Batch, decisions: Mapping[int, Decisions] = decisions) -> None:
                    decisions[partition].take(batch)

                until = {p: ends[p] for p in starts}
                fetcher.read(starts, until, deadline, take)
                if not any(own in each.open for each in decisions.values()):
                    break
                if deadline.expired:
                    raise Retriable(
                        f"Topic {self._topic}: the marker of our own commit (producer {own}) has not arrived "
                        "in time. The broker is slow; it is tried again"
                    )
                # The markers of an acknowledged commit may still be written, after the end that was read.
                time.sleep(deadline.slice(MARKER_SECONDS))
                ends = end_offsets(self._connection, self._topic, self._partitions, deadline)
        return self._contents(starts, until, decisions, deadline, key_filter, most_bytes)

    def _contents(
        self,
        starts: Positions,
        ends: Positions,
        decisions: Mapping[int, Decisions],
        deadline: Deadline,
        key_filter: KeyFilter,
        most_bytes: int | None,
    ) -> list[LogRecord]:
        """Read the contents of the batches with the client, which knows every compression."""
        hidden_offsets = {p: each.find_hidden() for p, each in decisions.items()}
        lasts = {p: each.last_visible for p, each in decisions.items() if each.last_visible is not None}
        records: list[LogRecord] = []
        size = 0
        if not lasts:
            return records
        reader = PartitionReader(
            self._connection,
            self._topic,
            {p: starts[p] for p in lasts},
            isolation=Isolation.UNCOMMITTED,
            fetch_wait_ms=FETCH_WAIT_MS,
        )
        try:
            while any(reader.positions[p] <= last for p, last in lasts.items()):
                if most_bytes is not None and size > most_bytes:
                    break
                if deadline.expired:
                    raise late(self._topic, reader.positions, {p: ends[p] for p in lasts})
                for message in reader.messages(deadline.slice(0.1), 1000):
                    record = record_of(message)
                    visible = (
                        record.offset < ends[record.partition] and record.offset not in hidden_offsets[record.partition]
                    )
                    if visible and key_filter(record.key):
                        records.append(record)
                        size += len(record.key or b"") + len(record.value or b"")
        finally:
            reader.close()
        return records


def late(topic: str, positions: Positions, ends: Positions) -> Retriable:
    """Return the error for an end that was not reached in time, with the progress."""
    behind = {p: (positions[p], end) for p, end in ends.items() if positions[p] < end}
    return Retriable(
        f"The end of topic {topic} was not reached in time: partition: (position, end) {behind}. A "
        "transaction that is still open holds it back, the broker is slow, or the topic is long and not compacted. "
        "It is tried again"
    )
