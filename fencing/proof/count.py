"""Counts a connector's transactions and records in Kafka while it runs. It changes nothing, and returns no records.

1 Get the end of the offsets topic (the cut): everything that is committed before it must be found. 2 Get the ends of
the data topics, which are after all data of those transactions. 3 Read the data topics up to there, batch by batch, and
further until the connector's transactions that were open there are decided. 4 Read the offsets topic up to its current
end, so that every transaction of step 3 is known. 5 If records contain their position in the source, read the records.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ringfence.connectors.api import PositionPaths
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.fetching.raw_reader import RawReader
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import Isolation, LogRecord, PartitionReader, record_of
from ringfence.fencing.kafka.open_transactions import TransactionProber
from ringfence.fencing.kafka.record_batches import Batch
from ringfence.fencing.kafka.topic_admin import topic_exists, topic_identity, topic_setting
from ringfence.fencing.kafka.topic_offsets import OffsetKind, end_offsets, offsets_at
from ringfence.fencing.offsets.record_counts import decode
from ringfence.fencing.offsets.source_offsets import SourceOffset, SourceOffsets, decode_key, may_concern
from ringfence.fencing.proof.alignment import Alignment, Border, Borders, ProofTally, align
from ringfence.fencing.proof.positions import PositionTally
from ringfence.fencing.proof.tallies import (
    Attempt,
    Fate,
    OffsetCommits,
    OffsetRecord,
    OffsetRecords,
    PackedRows,
    TopicTally,
)
from ringfence.fencing.topics.topic_log import TopicLog

Progress = Callable[[str, int, int], None]
"""The current step, how many of its offsets are done, and how many there are."""

_DECIDED_SECONDS: Final = 20.0
_AGAIN_SECONDS: Final = 0.2
_STALL_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class ProofScope:
    """offsets_topic: where the connector's transactions commit; ids: its tasks' transactional ids; letters: its dead
    letter queue, "" for none. positions: how its records name their places."""

    connector: ConnectorName
    offsets_topic: str
    topics: Sequence[str]
    ids: Sequence[str]
    letters: str = ""
    positions: PositionPaths | None = None


@dataclass(frozen=True, slots=True)
class Edges:
    """The first offsets and the ends of one topic's partitions, as they were counted."""

    topic: str
    first: Mapping[int, int]
    end: Mapping[int, int]
    compacted: bool = False


@dataclass(slots=True)
class ProofCounts:
    """The counts. missing: topics of the connector that do not exist."""

    tally: ProofTally
    edges: list[Edges]
    offsets: list[SourceOffset]
    alignments: dict[Attempt, Alignment]
    letters: dict[Attempt, Alignment]
    positions: PositionTally | None = None
    missing: list[str] = field(default_factory=list)
    ids_error: str = ""


class Counting:
    """One count. Raises `Retriable`, also if there is too little time; `Fatal` if the brokers refuse something."""

    def __init__(
        self,
        connection: Connection,
        offsets_connection: Connection,
        scope: ProofScope,
        deadline: Deadline,
        report: Progress,
    ) -> None:
        """connection: of the cluster that the connector writes to; offsets_connection: for its offsets topic there."""
        self._connection = connection
        self._offsets_connection = offsets_connection
        self._scope = scope
        self._deadline = deadline
        self._report = report
        self._read = 0
        self._whole = 0

    def run(self) -> ProofCounts:
        """Count now."""
        scope, deadline = self._scope, self._deadline
        ids, ids_error = self._find_ids()
        offsets = self._edges(self._offsets_connection, scope.offsets_topic)
        topics = [*scope.topics, *([scope.letters] if scope.letters else [])]
        there = [each for each in dict.fromkeys(topics) if topic_exists(self._connection, each, deadline)]
        edges = [self._edges(self._connection, each) for each in there]
        self._whole = sum(sum(each.end.values()) - sum(each.first.values()) for each in edges)
        tallies = {each.topic: self._tally(each, ids) for each in edges}
        now = end_offsets(self._offsets_connection, scope.offsets_topic, list(offsets.end), deadline)
        commits, source = self._commits(offsets, now)
        records = {name: tally for name, tally in tallies.items() if name != scope.letters}
        letters = {name: tally for name, tally in tallies.items() if name == scope.letters}
        deletions = [_describe_deleted(each, tallies[each.topic]) for each in edges]
        sums = ProofTally(commits, records, letters, ids, [text for text in deletions if text])
        return ProofCounts(
            sums,
            [*edges, Edges(offsets.topic, offsets.first, now, offsets.compacted)],
            source,
            _align_all(commits, records, edges, "records"),
            _align_all(commits, letters, edges, "dead_letters") if letters else {},
            self._positions([each for each in edges if each.topic != scope.letters]),
            [each for each in topics if each not in there],
            ids_error,
        )

    def _find_ids(self) -> tuple[frozenset[int] | None, str]:
        self._report("asking for the connector's producers", 0, 0)
        try:
            with TransactionProber(self._connection) as prober:
                rows = prober.transactions(self._scope.ids, Deadline.after(self._deadline.slice(15.0)))
        except FencingError as error:
            return None, str(error)
        return frozenset(each.producer_id for each in rows if each.producer_id >= 0), ""

    def _edges(self, connection: Connection, topic: str) -> Edges:
        """Ask for the end first: then records that are deleted in between are before the first offset."""
        _, partitions = topic_identity(connection, topic, self._deadline)
        end = end_offsets(connection, topic, partitions, self._deadline)
        first = offsets_at(connection, topic, partitions, OffsetKind.FIRST, self._deadline)
        policy = topic_setting(connection, topic, "cleanup.policy", self._deadline) or ""
        return Edges(topic, first, end, "compact" in policy)

    def _tally(self, edges: Edges, ids: frozenset[int] | None) -> TopicTally:
        tally = TopicTally(edges.end)
        next_offsets = dict(edges.first)
        with RawReader(self._connection, edges.topic) as fetcher:

            def take(partition: int, batch: Batch) -> None:
                self._progress(f"counting topic {edges.topic}", batch.last - next_offsets[partition] + 1)
                next_offsets[partition] = batch.last + 1
                tally.take(partition, batch)

            fetcher.read(edges.first, edges.end, self._deadline, take)
            patience = Deadline.after(self._deadline.slice(_DECIDED_SECONDS))
            while not patience.expired:
                open_ = tally.find_undecided()
                waiting = [p for p, whose in open_.items() if ids is None or whose & ids]
                if not waiting:
                    break
                ends = end_offsets(self._connection, edges.topic, waiting, self._deadline)
                starts = {
                    p: max(next_offsets[p], edges.end[p])
                    for p in waiting
                    if ends[p] > max(next_offsets[p], edges.end[p])
                }
                if starts:
                    fetcher.read(starts, ends, self._deadline, take)
                else:
                    time.sleep(patience.slice(_AGAIN_SECONDS))
        tally.close()
        return tally

    def _progress(self, doing: str, offsets: int) -> None:
        self._read += max(0, offsets)
        if self._deadline.expired:
            raise Retriable(
                f"There was not enough time: {min(self._read, self._whole):,} of {self._whole:,} offsets of the "
                "connector's topics were counted. Ask for more seconds"
            )
        self._report(doing, min(self._read, self._whole), self._whole)

    def _commits(self, edges: Edges, end: Mapping[int, int]) -> tuple[OffsetCommits, list[SourceOffset]]:
        name, topic = self._scope.connector, self._scope.offsets_topic
        self._report(f"reading source offsets in topic {topic}", 0, 0)
        records = OffsetRecords()
        log = TopicLog(self._offsets_connection, topic, edges.first, deadline=self._deadline)
        try:
            committed_records = log.catch_up(self._deadline, key_filter=may_concern(name), ends=end)
            # A generator, so that `ahead` is evaluated when `catch_up` has ended.
            for record in (one for part in (committed_records, _ahead_of(log)) for one in part):
                key = decode_key(record.key)
                if key is not None and key[0] == name:
                    one = OffsetRecord(record.offset, record.key, record.value, decode(record.headers))
                    records.add(record.partition, one)
        finally:
            log.close()
        commits = OffsetCommits(records, edges.end)
        with RawReader(self._offsets_connection, topic) as fetcher:

            def take(partition: int, batch: Batch) -> None:
                if self._deadline.expired:
                    raise Retriable(f"There was not enough time to read topic {topic}. Ask for more seconds")
                commits.take(partition, batch)

            fetcher.read(edges.first, end, self._deadline, take)
        # Only what these batches decide: offsets and counts must be of the same transactions.
        source = SourceOffsets(name)
        for each in commits.source.values():
            source.put(each.key, each.value)
        return commits, source.present()

    def _positions(self, edges: Sequence[Edges]) -> PositionTally | None:
        if self._scope.positions is None:
            return None
        tally = PositionTally(self._scope.positions)
        whole = sum(sum(each.end.values()) - sum(each.first.values()) for each in edges)
        done = 0
        for each in edges:
            stable = offsets_at(self._connection, each.topic, list(each.end), OffsetKind.STABLE, self._deadline)
            ends = {p: min(end, stable[p]) for p, end in each.end.items()}
            reader = PartitionReader(
                self._connection, each.topic, each.first, isolation=Isolation.COMMITTED, fetch_wait_ms=20
            )
            try:
                stall_deadline = Deadline.after(_STALL_SECONDS)
                while any(reader.positions[p] < end for p, end in ends.items()):
                    # If compaction has removed a partition's last records, the client waits for them forever.
                    if each.compacted and stall_deadline.expired:
                        break
                    if self._deadline.expired:
                        raise Retriable("There was not enough time to read the records' places. Ask for more seconds")
                    before = sum(reader.positions.values())
                    for message in reader.messages(0.1, 5000):
                        one = record_of(message)
                        if one.offset < ends[one.partition]:
                            tally.take(each.topic, one.partition, one.offset, one.key, one.value, one.headers)
                    if (moved := sum(reader.positions.values()) - before) > 0:
                        stall_deadline = Deadline.after(_STALL_SECONDS)
                        done += moved
                        self._report(f"reading the records' places in topic {each.topic}", min(done, whole), whole)
            finally:
                reader.close()
        return tally


def _ahead_of(log: TopicLog) -> Iterator[LogRecord]:
    yield from log.ahead


def _describe_deleted(edges: Edges, tally: TopicTally) -> str:
    missing = sum(edges.first.values())
    if missing:
        return f"{missing:,} offsets of {edges.topic}"
    return f"some records of {edges.topic} (compaction)" if tally.gaps else ""


def _align_all(
    commits: OffsetCommits, tallies: Mapping[str, TopicTally], edges: Sequence[Edges], what: str
) -> dict[Attempt, Alignment]:
    """Compare each attempt's transactions with its visible records."""
    deleted_until_ms = -1
    for each in edges:
        tally = tallies.get(each.topic)
        if tally is not None and (tally.gaps or any(each.first.values())):
            late = max(tally.first_marker_ms.values(), default=2**62)
            deleted_until_ms = max(deleted_until_ms, 2**62 if tally.gaps else late)
    parts: dict[Attempt, PackedRows] = {}
    for tally in tallies.values():
        for part in tally.parts:
            if part.fate is Fate.VISIBLE and (attempt := commits.producers.get(part.who)) is not None:
                parts.setdefault(attempt, PackedRows(2)).append(part.time_ms, part.records)
    return {
        attempt: align(
            Borders(Border(each.time_ms, getattr(each.counts, what), each.early) for each in commits.commits(attempt)),
            ((time_ms, records) for time_ms, records in parts.get(attempt, ())),
            deleted_until_ms,
        )
        for attempt in commits.attempts
    }
