"""Reads what was committed after the snapshots of several connectors, once for all of them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.offsets.source_offsets import OffsetsSnapshot, SourceOffsets, connector_of
from ringfence.fencing.topics.topic_log import PATIENCE_SECONDS, TopicLog

_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class TailRequest:
    """One attempt's. give_up: returns whether it no longer needs an answer."""

    snapshot: OffsetsSnapshot
    give_up: Callable[[], bool]
    deadline: Deadline


def read_tails(connection: Connection, topic: str, requests: Sequence[TailRequest]) -> Sequence[SourceOffsets | None]:
    """Return the connectors' committed offsets at the current end of the topic (invariant 6), as `read_offsets` does.

    None for a snapshot of another topic, or of one that was truncated since.
    """
    deadline = max((each.deadline for each in requests), key=lambda each: each.remaining)
    log = TopicLog(connection, topic, deadline=deadline, patience_s=PATIENCE_SECONDS)
    try:
        ends = log.request_ends(deadline)
        tails = [_Tail(each.snapshot) if each.snapshot.fits(log.topic_id, ends) else None for each in requests]
        by_connector: dict[ConnectorName, list[_Tail]] = defaultdict(list)
        for tail in filter(None, tails):
            by_connector[tail.offsets.connector].append(tail)
        if not by_connector:
            return [None] * len(requests)

        def take(records: Iterable[LogRecord]) -> None:
            for record in records:
                connector = connector_of(record.key)
                for tail in by_connector.get(connector, ()) if connector is not None else ():
                    tail.take(record)

        starts = [tail.snapshot.positions for tail in tails if tail is not None]
        log.restart({p: min(each.get(p, 0) for each in starts) for p in log.partitions})
        take(
            log.catch_up(
                deadline,
                lambda: all(each.give_up() for each in requests),
                _AT_ONCE,
                key_filter=lambda key: connector_of(key) in by_connector,
                ends=ends,
            )
        )
        take(log.ahead)
        return [None if tail is None else tail.complete(log, sum(ends.values())) for tail in tails]
    finally:
        log.close()


class _Tail:
    """The offsets of one snapshot, and what follows it."""

    def __init__(self, snapshot: OffsetsSnapshot) -> None:
        self.snapshot = snapshot
        self.offsets = SourceOffsets(snapshot.connector)
        for key, value in snapshot.entries:
            self.offsets.put(key, value)

    def take(self, record: LogRecord) -> None:
        if record.offset >= self.snapshot.positions.get(record.partition, 0):
            self.offsets.take([record])

    def complete(self, log: TopicLog, end: int) -> SourceOffsets:
        offsets = self.offsets
        offsets.records_read = end - sum(self.snapshot.positions.get(p, 0) for p in log.partitions)
        offsets.topic_id, offsets.positions = log.topic_id, log.positions
        return offsets
