"""Reads a page of a topic's records for users, from any place on.

Forward pages begin at an offset of each partition, backward pages end at one. A page has no gaps in a partition: the
next page begins with the first record that this one left out.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Invalid
from ringfence.fencing.fetching.raw_reader import RawReader
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.record_batches import Batch, Decisions
from ringfence.fencing.kafka.topic_offsets import offsets_since
from ringfence.fencing.kafka.topic_records import Limits, OffsetRange, Reading, TailRecord, Visibility, between, edges

_WIDER: Final = 4
_WIDEST: Final = 1_000_000
_UNDECIDED_BATCHES: Final = 50_000
_UNDECIDED_SECONDS: Final = 3.0


class PageStartKind(StrEnum):
    """Where a page begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where to begin. value: an offset, or a time in ms since the epoch. cursor: the last page's end, which wins."""

    kind: PageStartKind = PageStartKind.LATEST
    value: int = 0
    cursor: Mapping[int, int] | None = None

    @property
    def forward(self) -> bool:
        return self.kind is not PageStartKind.LATEST


@dataclass(frozen=True, slots=True)
class Page:
    """A page: forward ones have the oldest record first, others the newest. ranges: what was read of each partition.

    cursor: where the next page in the same direction begins, for each partition; more: whether it may have records.
    complete: reading did not stop at the time or size limit. scanned: the number of offsets that were read.
    holders: for partitions with open transactions, the producer ids and the first offset of each.
    """

    records: Sequence[TailRecord]
    ranges: Sequence[OffsetRange]
    partitions: int
    cursor: Mapping[int, int]
    more: bool
    complete: bool
    scanned: int
    holders: Mapping[int, Mapping[int, int]]


def read_page(
    connection: Connection,
    topic: str,
    place: PageStart,
    deadline: Deadline,
    limits: Limits,
    *,
    partitions: Collection[int] | None = None,
    committed_only: bool,
) -> Page:
    """Read a page. partitions: only these. Raises `Invalid` if the topic lacks one of them, and the brokers' errors."""
    whole, count = edges(connection, topic, deadline)
    if partitions is not None:
        whole = [each for each in whole if each.partition in partitions]
        if len(whole) < len(partitions):
            raise Invalid(f"Topic {topic} has partitions 0 to {count - 1} only")
    if committed_only:
        whole = [replace(each, until=each.stable) for each in whole]
    reader = _PageReader(connection, topic, deadline, limits, committed_only)
    if place.forward:
        page = reader.forward(_move_starts(connection, topic, place, whole, deadline), count)
    else:
        page = reader.backward(_move_ends(place, whole), count)
    return page if committed_only else _decide(connection, topic, page, deadline)


def _move_starts(
    connection: Connection, topic: str, place: PageStart, whole: Sequence[OffsetRange], deadline: Deadline
) -> list[OffsetRange]:
    starts = {each.partition: place.value if place.kind is PageStartKind.OFFSET else each.first for each in whole}
    if place.cursor is not None:
        starts = {each.partition: place.cursor.get(each.partition, each.first) for each in whole}
    elif place.kind is PageStartKind.TIME and whole:
        offsets = offsets_since(connection, topic, sorted(starts), place.value, deadline)
        starts = {each.partition: offsets[each.partition] for each in whole}
        starts = {number: offset if offset >= 0 else 2**63 - 1 for number, offset in starts.items()}
    return [replace(each, start=min(max(each.first, starts[each.partition]), each.until)) for each in whole]


def _move_ends(place: PageStart, whole: Sequence[OffsetRange]) -> list[OffsetRange]:
    if place.cursor is None:
        return list(whole)
    return [
        replace(each, until=max(each.first, min(each.until, place.cursor.get(each.partition, each.until))))
        for each in whole
    ]


@dataclass(frozen=True, slots=True)
class _PageReader:
    connection: Connection
    topic: str
    deadline: Deadline
    limits: Limits
    committed_only: bool

    def forward(self, parts: Sequence[OffsetRange], count: int) -> Page:
        limits = replace(self.limits, each=self.limits.records)
        candidates, positions, complete = self._read(parts, limits)
        by_partition: dict[int, list[TailRecord]] = {}
        for record in candidates:
            by_partition.setdefault(record.partition, []).append(record)
        for each in by_partition.values():
            each.sort(key=lambda one: one.offset)
        by_time = heapq.merge(*by_partition.values(), key=lambda one: one.timestamp_ms)
        records = [one for _, one in zip(range(self.limits.records), by_time, strict=False)]
        last = {one.partition: one.offset for one in records}
        left = {p: sum(one.offset > last.get(p, -1) for one in ones) for p, ones in by_partition.items()}
        cursor = {}
        for part in parts:
            number = part.partition
            if left.get(number):
                cursor[number] = last[number] + 1 if number in last else part.start
            else:
                cursor[number] = max(part.start, positions[number])
        more = any(cursor[part.partition] < part.until for part in parts)
        ranges = [replace(part, until=cursor[part.partition]) for part in parts]
        scanned = sum(max(0, positions[part.partition] - part.start) for part in parts)
        return Page(records, ranges, count, cursor, more, complete, scanned, {})

    def _read(self, parts: Sequence[OffsetRange], limits: Limits) -> tuple[list[TailRecord], dict[int, int], bool]:
        """Return the records, the next position in each partition, and whether the reading is complete."""
        starts = {each.partition: each.start for each in parts}
        committed_reading = Reading(self.connection, self.topic, "read_committed", limits)
        complete = committed_reading.run(
            starts, {each.partition: max(each.start, min(each.stable, each.until)) for each in parts}, self.deadline
        )
        if self.committed_only:
            return committed_reading.records, committed_reading.positions, complete
        visible = {(one.partition, one.offset) for one in committed_reading.records}
        every = Reading(self.connection, self.topic, "read_uncommitted", limits)
        complete = every.run(starts, {each.partition: each.until for each in parts}, self.deadline) and complete
        stable = {each.partition: min(each.stable, committed_reading.positions[each.partition]) for each in parts}
        return [_mark(one, visible, stable) for one in every.records], every.positions, complete

    def backward(self, parts: Sequence[OffsetRange], count: int) -> Page:
        """Read in chunks, each further back and larger than the one before."""
        back = 2 * self.limits.records  # of each: one partition may have all the newest, and markers take offsets, too
        edge = {each.partition: each.until for each in parts}
        records: list[TailRecord] = []
        complete, scanned = True, 0
        while True:
            chunk = [
                replace(each, start=max(each.first, edge[each.partition] - back), until=edge[each.partition])
                for each in parts
            ]
            older, whole = between(
                self.connection, self.topic, chunk, self.deadline, self.limits, committed_only=self.committed_only
            )
            complete = complete and whole
            if not whole and scanned:
                break  # it lacks the newest records: the next page begins with it
            records += older
            scanned += sum(each.until - each.start for each in chunk)
            edge = {each.partition: each.start for each in chunk}
            at_first = all(each.start == each.first for each in chunk)
            if len(records) >= self.limits.records or at_first or not whole or back >= _WIDEST:
                complete = complete and (len(records) >= self.limits.records or at_first)
                break
            if self.deadline.expired:
                complete = False
                break
            back *= _WIDER
        return self._newest(parts, records, edge, count, complete, scanned)

    def _newest(
        self,
        parts: Sequence[OffsetRange],
        candidates: Iterable[TailRecord],
        edge: Mapping[int, int],
        count: int,
        complete: bool,
        scanned: int,
    ) -> Page:
        by_partition: dict[int, list[TailRecord]] = {}
        for record in candidates:
            by_partition.setdefault(record.partition, []).append(record)
        for each in by_partition.values():
            each.sort(key=lambda one: -one.offset)
        by_time = heapq.merge(*by_partition.values(), key=lambda one: -one.timestamp_ms)
        records = [one for _, one in zip(range(self.limits.records), by_time, strict=False)]
        last = {one.partition: one.offset for one in records}
        cursor = {}
        for part in parts:
            number, ones = part.partition, by_partition.get(part.partition, [])
            cut = any(one.offset < last.get(number, part.until) for one in ones)
            cursor[number] = last.get(number, part.until) if cut else edge[number]
        more = any(cursor[part.partition] > part.first for part in parts)
        ranges = [replace(part, start=cursor[part.partition]) for part in parts]
        return Page(records, ranges, count, cursor, more, complete, scanned, {})


def _mark(record: TailRecord, visible: set[tuple[int, int]], stable: Mapping[int, int]) -> TailRecord:
    if (record.partition, record.offset) in visible:
        return record
    visibility = Visibility.ABORTED if record.offset < stable[record.partition] else Visibility.OPEN
    return replace(record, visibility=visibility)


class _Enough(Exception):
    """There are too many undecided batches to read them all."""


def _decide(connection: Connection, topic: str, page: Page, deadline: Deadline) -> Page:
    """Distinguish the page's records after the LSO: aborted, committed but hidden, and really open."""
    parts = [each for each in page.ranges if each.stable < each.end]
    if not parts:
        return page
    decisions = {each.partition: Decisions() for each in parts}
    batches = 0

    def take(partition: int, batch: Batch) -> None:
        nonlocal batches
        batches += 1
        if batches > _UNDECIDED_BATCHES:
            raise _Enough
        decisions[partition].take(batch)

    try:
        with RawReader(connection, topic) as fetcher:
            starts, ends = {e.partition: e.stable for e in parts}, {e.partition: e.end for e in parts}
            fetcher.read(starts, ends, Deadline.after(deadline.slice(_UNDECIDED_SECONDS)), take)
    except (_Enough, FencingError):
        return page  # an unknown state is shown as open: not decided yet
    hidden_offsets = {number: one.find_hidden() for number, one in decisions.items()}
    open_producers = {number: one.open for number, one in decisions.items()}
    stable = {each.partition: each.stable for each in parts}
    records = []
    for record in page.records:
        behind = record.partition in stable and record.offset >= stable[record.partition]
        if record.visibility is Visibility.OPEN and behind:
            if record.offset not in hidden_offsets[record.partition]:
                record = replace(record, visibility=Visibility.WAITING)
            elif not decisions[record.partition].is_open(record.offset):
                record = replace(record, visibility=Visibility.ABORTED)
        records.append(record)
    return replace(
        page, records=records, holders={number: producers for number, producers in open_producers.items() if producers}
    )
