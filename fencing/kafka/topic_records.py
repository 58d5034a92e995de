"""Reads the last records of a topic for users: committed, aborted or undecided (`fetching/topic_pages.py`: a page).

1 Request the first offset, the last stable offset (LSO) and the end of each partition. 2 Read the last range of each
twice, with read_uncommitted and with read_committed. 3 What only the first reading returns is aborted if it is before
the LSO. Otherwise it belongs to an open transaction, or follows one. It joins no group and commits nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import compress
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Fenced, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors, translate
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at

MOST_PARTITIONS = 100
MOST_HEADERS = 20
MOST_BYTES = 16 * 1024 * 1024
WIDER = 8
WIDEST = 20_000

Headers = Sequence[tuple[str, bytes | None]]
Keep = Callable[[int, int, Headers], bool]
"""Returns whether to keep a record, by its partition, offset and headers."""


@dataclass(frozen=True, slots=True)
class MetRecord:
    """A whole record, as it was read."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Test = Callable[[Sequence[MetRecord]], Sequence[bool]]
"""Whether each record is kept."""


class Visibility(StrEnum):
    """Whether readers see a record. OPEN: it is not before the LSO yet, so no read_committed reader sees it.

    WAITING: as OPEN, but its own transaction is known to be committed: another one, still open, hides it.
    """

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class TailRecord:
    """A record, with key, value and headers cut to a limit. The sizes are the original ones, -1 for null."""

    partition: int
    offset: int
    timestamp_ms: int
    visibility: Visibility
    key: bytes | None
    key_size: int
    value: bytes | None
    value_size: int
    headers: Sequence[tuple[str, bytes | None, int]]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A partition: its first offset, its last stable offset, its end, and the range that was read."""

    partition: int
    first: int
    stable: int
    end: int
    start: int
    until: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest records, the newest first. complete: reading did not stop at the time or size limit.

    `partitions`: how many the topic has; those read are in `stretches`.
    """

    records: Sequence[TailRecord]
    stretches: Sequence[OffsetRange]
    partitions: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a reading. records: how many to keep; size: the bytes of each key, value and header that are kept;
    bytes: of all records that are read; kept_bytes: of those that `keep` selects by their headers. test: a further
    condition on whole records, a batch at a time. each: the reading of a partition ends when it has kept so many."""

    records: int = 50
    size: int = 2048
    headers: int = MOST_HEADERS
    bytes: int = MOST_BYTES
    kept_bytes: int = MOST_BYTES
    keep: Keep = lambda _partition, _offset, _headers: True
    test: Test | None = None
    each: int | None = None


def tail(
    connection: Connection, topic: str, deadline: Deadline, limits: Limits, *, committed_only: bool = False
) -> Tail:
    """Return its newest records. committed_only: as a read_committed reader sees them. Raises `FencingError`."""
    whole, partitions = edges(connection, topic, deadline)
    back = max(2, 2 * limits.records // max(1, len(whole)))
    while True:
        stretches = [replace(each, start=max(each.first, each.end - back)) for each in whole]
        records, complete = between(connection, topic, stretches, deadline, limits, committed_only=committed_only)
        exhausted = all(each.start == each.first for each in stretches)
        if len(records) >= limits.records or exhausted or not complete or deadline.expired or back >= WIDEST:
            return Tail(records[: limits.records], stretches, partitions, complete)
        back *= WIDER  # markers and aborted records take offsets, too


def edges(connection: Connection, topic: str, deadline: Deadline) -> tuple[list[OffsetRange], int]:
    """Return the whole ranges of at most `MOST_PARTITIONS` partitions, and how many partitions the topic has."""
    _, every = topic_identity(connection, topic, Deadline.after(deadline.slice(3.0)))
    partitions = sorted(every)[:MOST_PARTITIONS]
    first = offsets_at(connection, topic, partitions, OffsetKind.FIRST, deadline)
    stable = offsets_at(connection, topic, partitions, OffsetKind.STABLE, deadline)
    end = offsets_at(connection, topic, partitions, OffsetKind.END, deadline)
    # An end that is requested after the LSO is not before it, unless the topic is created again in the meantime.
    return [OffsetRange(p, first[p], min(stable[p], end[p]), end[p], first[p], end[p]) for p in partitions], len(every)


def between(
    connection: Connection,
    topic: str,
    stretches: Iterable[OffsetRange],
    deadline: Deadline,
    limits: Limits,
    *,
    committed_only: bool,
) -> tuple[list[TailRecord], bool]:
    """Return the kept records of these ranges, the newest first, and whether they are complete."""
    parts = {each.partition: each for each in stretches}
    starts = {p: each.start for p, each in parts.items()}
    committed_reading = Reading(connection, topic, "read_committed", limits)
    ends = {p: max(min(each.stable, each.until), each.start) for p, each in parts.items()}
    whole = committed_reading.run(starts, ends, deadline)
    visible = {(record.partition, record.offset) for record in committed_reading.records}
    if committed_only:
        return _newest(committed_reading.records), whole
    every = Reading(connection, topic, "read_uncommitted", limits)
    whole = every.run(starts, {p: each.until for p, each in parts.items()}, deadline) and whole

    def visibility(record: TailRecord) -> Visibility:
        if (record.partition, record.offset) in visible:
            return Visibility.COMMITTED
        stable = parts[record.partition].stable
        # Whether a record is aborted is unknown if it could not be read in time.
        return (
            Visibility.ABORTED
            if record.offset < min(stable, committed_reading.positions[record.partition])
            else Visibility.OPEN
        )

    return _newest(_with_visibility(record, visibility(record)) for record in every.records), whole


def _newest(records: Iterable[TailRecord]) -> list[TailRecord]:
    return sorted(records, key=lambda each: (each.timestamp_ms, each.offset, each.partition), reverse=True)


def _with_visibility(record: TailRecord, visibility: Visibility) -> TailRecord:
    whole = (record.key, record.key_size, record.value, record.value_size, record.headers)
    return TailRecord(record.partition, record.offset, record.timestamp_ms, visibility, *whole)


class Reading:
    """One reading of ranges at one isolation level."""

    def __init__(self, connection: Connection, topic: str, isolation: str, limits: Limits) -> None:
        self._topic = topic
        self._limits = limits
        self.records: list[TailRecord] = []
        self.positions: dict[int, int] = {}
        self.kept_bytes = 0
        self._full: set[int] = set()
        self._counts: Counter[int] = Counter()
        with kafka_errors(f"opening topic {topic}"):
            settings = connection.for_reading(
                group_id=f"{connection.client_id}-tail",  # librdkafka requires it; it is never joined
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                isolation_level=isolation,
                auto_offset_reset="earliest",
                queued_max_messages_kbytes=4096,
                fetch_max_bytes=4 * 1024 * 1024,
                max_partition_fetch_bytes=1024 * 1024,
                fetch_wait_max_ms=20,
            )
            self._consumer = connection.create(lambda: Consumer(settings))

    def run(self, starts: Mapping[int, int], ends: Mapping[int, int], deadline: Deadline) -> bool:
        """Read up to the ends. Return whether it got there within the time and size limits."""
        self.positions = dict(starts)
        left = {p for p, start in starts.items() if start < ends[p]}
        size = 0
        try:
            with kafka_errors(f"reading topic {self._topic}"):
                self._consumer.assign([TopicPartition(self._topic, p, starts[p]) for p in sorted(left)])
                while left and size < self._limits.bytes and self.kept_bytes < self._limits.kept_bytes:
                    if deadline.expired:
                        return False
                    messages = self._consumer.consume(500, deadline.slice(0.05))
                    size += self._take(messages, ends)
                    if full := self._full & left:
                        self._consumer.incremental_unassign([TopicPartition(self._topic, p) for p in full])
                    left = {p for p in left - full if self.positions[p] < ends[p]}
        finally:
            self._consumer.close()
        return not left

    def _take(self, messages: Sequence[Any], ends: Mapping[int, int]) -> int:
        """Keep the records before the ends. Return the size of all records in bytes."""
        records = [None if each.error() is not None else _met(each) for each in messages]
        candidates = [
            each
            for each in records
            if each is not None
            and each.partition not in self._full
            and each.offset < ends[each.partition]
            and self._limits.keep(each.partition, each.offset, each.headers)
        ]
        test = self._limits.test
        matches = candidates if test is None or not candidates else list(compress(candidates, test(candidates)))
        places = {(each.partition, each.offset) for each in matches}
        return sum(
            self._note(message) if record is None else self._keep(record, places)
            for message, record in zip(messages, records, strict=True)
        )

    def _note(self, message: Any) -> int:
        """Take note of an error, or the end of a partition."""
        partition, error = message.partition(), message.error()
        if partition in self._full:
            return 0
        if error.code() == KafkaError._PARTITION_EOF:
            self.positions[partition] = max(self.positions[partition], message.offset())
            return 0
        trouble = translate(error, f"reading topic {self._topic}")
        if isinstance(trouble, Retriable) and not isinstance(trouble, Fatal | Fenced):
            return 0  # the client recovers by itself
        raise trouble

    def _keep(self, record: MetRecord, places: Set[tuple[int, int]]) -> int:
        """Move behind the record, and keep it if it is at one of these places. Return its size in bytes."""
        partition = record.partition
        if partition in self._full:
            return 0
        self.positions[partition] = record.offset + 1
        size = len(record.key or b"") + len(record.value or b"") + sum(len(each or b"") for _, each in record.headers)
        if (partition, record.offset) in places:
            self.kept_bytes += size
            self.records.append(self._cut_record(record))
            self._counts[partition] += 1
            if self._counts[partition] == self._limits.each:
                self._full.add(partition)
        return size

    def _cut_record(self, record: MetRecord) -> TailRecord:
        return TailRecord(
            record.partition,
            record.offset,
            record.timestamp_ms,
            Visibility.COMMITTED,
            self._cut(record.key),
            _size(record.key),
            self._cut(record.value),
            _size(record.value),
            [(name, self._cut(each), _size(each)) for name, each in record.headers[: self._limits.headers]],
        )

    def _cut(self, data: bytes | None) -> bytes | None:
        return None if data is None else data[: self._limits.size]


def _met(message: Any) -> MetRecord:
    key, value, headers = message.key(), message.value(), message.headers() or []
    return MetRecord(message.partition(), message.offset(), message.timestamp()[1], key, value, headers)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
