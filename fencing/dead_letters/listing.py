"""Lists the dead letters of one connector: the newest first, by stage and class, with the state of their replays.

It joins no group and changes nothing. Each partition is read backwards in growing ranges, as in
`fencing.kafka.topic_tail`. Marks of replays are read from the oldest dead letter of the page to the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_tail import (
    MOST_BYTES,
    WIDER,
    WIDEST,
    Limits,
    OffsetRange,
    Reading,
    TailRecord,
    Visibility,
    between,
    edges,
)
from ringfence.fencing.records.dead_letter import CONNECTOR, PREFIX, Headers, Place, parse_replayed_offset, text_of

_ALL_HEADERS: Final = 10_000


class Replay(StrEnum):
    """Whether a letter was replayed.

    UNDECIDED: there is a mark, but its transaction is open or follows an open one. UNKNOWN: the reading is partial.
    """

    NO = "no"
    YES = "yes"
    UNDECIDED = "undecided"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters, "" for any. by: the class of the transform or converter, or of the error, with or without its
    module."""

    connector: str
    stage: str = ""
    by: str = ""

    def holds(self, headers: Headers) -> bool:
        if text_of(headers, CONNECTOR) != self.connector or parse_replayed_offset(headers) is not None:
            return False
        if self.stage and text_of(headers, PREFIX + "stage") != self.stage:
            return False
        error = text_of(headers, PREFIX + "exception.class.name")
        names = (text_of(headers, PREFIX + "class.name"), error, error.rpartition(".")[2])
        return not self.by or self.by in names


@dataclass(slots=True)
class ReplayMarks:
    """The places of replayed dead letters; open: those whose mark is in an undecided transaction. Aborted marks are in
    neither."""

    done: set[Place] = field(default_factory=set)
    open: set[Place] = field(default_factory=set)
    complete: bool = True

    def of(self, place: Place) -> Replay:
        if place in self.done:
            return Replay.YES
        if place in self.open:
            return Replay.UNDECIDED
        return Replay.NO if self.complete else Replay.UNKNOWN


@dataclass(frozen=True, slots=True)
class Page:
    """Dead letters, the newest first, with the state of each one's replay. older: where the next page begins, by
    partition, None if there is none. complete: reading did not stop at the time or size limit."""

    letters: Sequence[tuple[TailRecord, Replay]]
    stretches: Sequence[OffsetRange]
    partitions: int
    older: Mapping[int, int] | None
    complete: bool


def page(
    connection: Connection,
    topic: str,
    selection: DeadLetterFilter,
    deadline: Deadline,
    limits: Limits,
    *,
    before: Mapping[int, int] | None = None,
    committed_only: bool = True,
) -> Page:
    """Return at most `limits.records`. before: only those before these offsets. Raises the brokers' errors."""
    whole, partitions = edges(connection, topic, deadline)
    ranges = [replace(each, until=_within(each, (before or {}).get(each.partition))) for each in whole]
    keep = replace(limits, headers=_ALL_HEADERS, keep=lambda _partition, _offset, headers: selection.holds(headers))
    back = max(2, 4 * limits.records // max(1, len(ranges)))
    letters_read, read = list[TailRecord](), [replace(each, start=each.until) for each in ranges]
    whole_before = narrowed = False
    while True:
        tails = [replace(each, start=max(each.first, each.until - back)) for each in ranges]
        records, complete = between(connection, topic, tails, deadline, keep, committed_only=committed_only)
        if not complete and not whole_before and back > 2 and not deadline.expired:
            back, narrowed = max(2, back // WIDER), True  # a larger range, read forwards, loses the newest
            continue
        if complete or not whole_before:
            letters_read, read, whole_before = records, tails, complete
        exhausted = all(each.start == each.first for each in tails)
        if (
            len(letters_read) >= limits.records
            or exhausted
            or not complete
            or narrowed
            or deadline.expired
            or back >= WIDEST
        ):
            break
        back *= WIDER
    newest = _newest(letters_read, limits.records)
    oldest = _oldest(newest)
    marks = read_marks(connection, topic, oldest, whole, deadline, MOST_BYTES)
    letters = [(record, marks.of((record.partition, record.offset))) for record in newest]
    return Page(letters, whole, partitions, _older(read, letters_read, newest), whole_before)


def _within(each: OffsetRange, before: int | None) -> int:
    return each.end if before is None else max(each.first, min(each.end, before))


def _newest(records: Iterable[TailRecord], most: int) -> list[TailRecord]:
    """Order by time, but keep each partition without gaps: the times come from the source, and may jump."""
    latest: dict[int, int] = {}
    pairs = []
    for record in sorted(records, key=lambda each: (each.partition, each.offset)):
        latest[record.partition] = max(record.timestamp_ms, latest.get(record.partition, 0))
        pairs.append(((latest[record.partition], record.offset, record.partition), record))
    return [record for _, record in sorted(pairs, key=lambda each: each[0], reverse=True)[:most]]


def _oldest(records: Iterable[TailRecord]) -> dict[int, int]:
    oldest: dict[int, int] = {}
    for record in records:
        oldest[record.partition] = min(record.offset, oldest.get(record.partition, record.offset))
    return oldest


def _older(
    read: Sequence[OffsetRange], records: Sequence[TailRecord], letters: Sequence[TailRecord]
) -> dict[int, int] | None:
    """Return where the next page begins: before the oldest shown dead letter of a partition that has more."""
    oldest, there = _oldest(letters), {(each.partition, each.offset) for each in letters}
    partial_partitions = {each.partition for each in records if (each.partition, each.offset) not in there}
    older = {
        p: oldest.get(p, each.until) if p in partial_partitions else each.start
        for each in read
        for p in [each.partition]
    }
    return older if any(older[each.partition] > each.first for each in read) else None


def read_marks(
    connection: Connection,
    topic: str,
    starts: Mapping[int, int],
    whole: Iterable[OffsetRange],
    deadline: Deadline,
    most_bytes: int,
) -> ReplayMarks:
    """Return the marks from these offsets to the end. From the last stable offset on, it reads uncommitted ones."""
    marks = ReplayMarks()
    into = marks.done

    def keep(partition: int, _offset: int, headers: Headers) -> bool:
        about = parse_replayed_offset(headers)
        if about is not None:
            into.add((partition, about))
        return False

    parts = [each for each in whole if each.partition in starts]
    limits = Limits(keep=keep, bytes=most_bytes)
    stable = {each.partition: max(each.stable, starts[each.partition]) for each in parts}
    committed_reading = Reading(connection, topic, "read_committed", limits)
    marks.complete = committed_reading.run({p: starts[p] for p in stable}, stable, deadline)
    into = marks.open
    open_ends = {each.partition: each.end for each in parts if each.end > stable[each.partition]}
    if open_ends:
        every = Reading(connection, topic, "read_uncommitted", limits)
        marks.complete &= every.run({p: stable[p] for p in open_ends}, open_ends, deadline)
    return marks


__all__ = ["DeadLetterFilter", "Page", "Replay", "ReplayMarks", "Visibility", "page", "read_marks"]
