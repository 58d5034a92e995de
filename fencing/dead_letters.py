"""Lists and replays the dead letters of one connector.

The list has the newest first, by stage and class, with the state of their replays. It joins no group and changes
nothing. Each partition is read backwards in growing ranges, as in `fencing.kafka.topic_records`. Marks of replays are
read from the oldest dead letter of the page to the end.

A replay is exactly once: its results, and the marks of what was replayed, share one transaction. 1 Create a producer
with the connector's transactional id for replays: `init` fences an earlier replay, and ends its open transaction.
2 Read the dead letters and the marks after them. 3 Send those without a mark through the current transforms and
converters. 4 Write the results, and a mark for each dead letter, in one transaction. A crash before the end of step 4
changes nothing; a repeated replay finds the marks. Records that fail again stay, without a mark.

A dead letter whose mark is in an undecided transaction is skipped: it is unknown whether it was replayed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fenced, FencingError, Invalid, Retriable, UnknownOutcome
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_records import (
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
from ringfence.fencing.records.dead_letter import (
    CONNECTOR,
    PREFIX,
    DeadLetter,
    Headers,
    Place,
    mark,
    parse_replayed_offset,
    text_of,
)
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.fencing.transactions.record_columns import Record

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


MOST_LETTERS: Final = 500
_MOST_REPLAY_BYTES: Final = 16 * 1024 * 1024
_ALL: Final = 2**31 - 1


class ReplayOutcome(StrEnum):
    """The outcome for a dead letter. WRITTEN and DROPPED (by a transform) get a mark; the others are unchanged."""

    WRITTEN = "written"
    DROPPED = "dropped"
    FAILED = "failed"
    REPLAYED = "replayed"
    UNDECIDED = "undecided"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """topic: the topic of the new record, "" for none; why: what failed, or why nothing was done."""

    place: Place
    became: ReplayOutcome
    topic: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class LetterConversion:
    """The conversion of a dead letter. call: produces the record, None if a transform dropped it; why: the failure."""

    call: Record | None = None
    why: str = ""


Convert = Callable[[Sequence[DeadLetter]], Sequence[LetterConversion]]


class Replays:
    """One replay of one connector's dead letters. Use it once."""

    def __init__(
        self,
        new_producer: Callable[[], TransactionalClient],
        reading: Connection,
        topic: str,
        connector: str,
        deadline: Deadline,
    ) -> None:
        """new_producer: with the connector's `replay_transactional_id`; topic: of the dead letters."""
        self._new_producer = new_producer
        self._reading = reading
        self._topic = topic
        self._connector = connector
        self._deadline = deadline
        self.left = 0
        """After `all`: how many dead letters wait for another replay."""

    def replay(self, places: Iterable[Place], convert: Convert, details: Mapping[str, str]) -> list[ReplayResult]:
        """Replay these dead letters. details: further content of the marks, for example the user.

        Raises `Fenced` if a newer replay of the connector has begun, and `UnknownOutcome`: after both, the marks show
        what was written. After any other `FencingError`, nothing was written.
        """
        return self._run(lambda whole: (sorted(set(places)), DeadLetterFilter(self._connector)), convert, details)

    def all(
        self, selection: DeadLetterFilter, convert: Convert, details: Mapping[str, str], most: int = MOST_LETTERS
    ) -> list[ReplayResult]:
        """Replay the oldest dead letters that match and were not replayed yet."""

        def choose(whole: Sequence[OffsetRange]) -> tuple[list[Place], DeadLetterFilter]:
            places = self._matching(selection, whole)
            self.left = max(0, len(places) - most)
            return places[:most], selection

        return self._run(choose, convert, details)

    def _run(
        self,
        choose: Callable[[Sequence[OffsetRange]], tuple[Sequence[Place], DeadLetterFilter]],
        convert: Convert,
        details: Mapping[str, str],
    ) -> list[ReplayResult]:
        producer = self._new_producer()
        try:
            producer.init(self._deadline)  # 1
            whole, _ = edges(self._reading, self._topic, self._deadline)
            places, offsets_due = choose(whole)
            marks = self._marks(places, whole)  # 2
            letters = {letter.place: letter for letter in self._letters(places, offsets_due, whole, marks)}
            conversions = dict(zip(letters, convert(list(letters.values())), strict=True))  # 3
            calls = [
                call
                for place, conversion in conversions.items()
                if not conversion.why
                for call in (
                    conversion.call,
                    mark(self._topic, place, self._connector, _mark_value(details, conversion)),
                )
                if call is not None
            ]
            if calls:
                self._transaction(producer, calls)  # 4
        finally:
            producer.close()
        return [self._result(place, marks, conversions.get(place)) for place in places]

    def _matching(self, selection: DeadLetterFilter, whole: Sequence[OffsetRange]) -> list[Place]:
        """Return the matching dead letters without a mark, the oldest first."""
        places_due: list[Place] = []

        def keep(partition: int, offset: int, headers: Headers) -> bool:
            if selection.holds(headers):
                places_due.append((partition, offset))
            return False

        self._read({each.partition: each.first for each in whole}, whole, Limits(keep=keep, bytes=_ALL * 1024))
        marks = self._marks(places_due, whole)
        return [place for place in sorted(places_due) if marks.of(place) is Replay.NO]

    def _marks(self, places: Sequence[Place], whole: Sequence[OffsetRange]) -> ReplayMarks:
        starts = _starts(places)
        marks = read_marks(self._reading, self._topic, starts, whole, self._deadline, _ALL * 1024)
        if not marks.complete:
            raise self._too_long()
        return marks

    def _letters(
        self, places: Sequence[Place], selection: DeadLetterFilter, whole: Sequence[OffsetRange], marks: ReplayMarks
    ) -> list[DeadLetter]:
        """Return the committed dead letters at these places, in the requested order."""
        due = {place for place in places if marks.of(place) is Replay.NO}

        def keep(partition: int, offset: int, headers: Headers) -> bool:
            return (partition, offset) in due and selection.holds(headers)

        limits = Limits(size=_ALL, headers=_ALL, bytes=_ALL * 1024, kept_bytes=_MOST_REPLAY_BYTES, keep=keep)
        behind = _starts((partition, -offset - 1) for partition, offset in due)
        near = [replace(each, stable=min(each.stable, -behind.get(each.partition, 0))) for each in whole]
        by_place = {(each.partition, each.offset): each for each in self._read(_starts(due), near, limits)}
        return [_letter(by_place[place]) for place in places if place in by_place]

    def _read(self, starts: Mapping[int, int], whole: Sequence[OffsetRange], limits: Limits) -> list[TailRecord]:
        ends = {each.partition: each.stable for each in whole if each.partition in starts}
        reading = Reading(self._reading, self._topic, "read_committed", limits)
        if not reading.run({p: min(starts[p], ends[p]) for p in ends}, ends, self._deadline):
            if reading.kept_bytes >= limits.kept_bytes:
                raise Invalid(f"These letters have more than {limits.kept_bytes} bytes. Replay fewer of them at a time")
            raise self._too_long()
        return reading.records

    def _too_long(self) -> FencingError:
        return Retriable(
            f"Topic {self._topic} could not be read to its end in time, so it is not known what was replayed already: "
            "nothing was written. Choose newer letters, or try again when the broker has less to do"
        )

    def _transaction(self, producer: TransactionalClient, calls: Sequence[Record]) -> None:
        producer.begin()
        try:
            for call in calls:
                producer.produce(*call)
            if self._deadline.expired:
                raise Retriable("The time for the replay is over: nothing was written. Replay fewer letters at a time")
            producer.commit(self._deadline)
        except (UnknownOutcome, Fenced):
            raise  # the transaction may be committed, and only the response lost
        except FencingError:
            producer.abort(Deadline.after(3))
            raise

    def _result(self, place: Place, marks: ReplayMarks, conversion: LetterConversion | None) -> ReplayResult:
        match marks.of(place):
            case Replay.YES:
                return ReplayResult(place, ReplayOutcome.REPLAYED, why="It was replayed before")
            case Replay.UNDECIDED:
                why = "It may have been replayed in a transaction that is still open: try again in a moment"
                return ReplayResult(place, ReplayOutcome.UNDECIDED, why=why)
        if conversion is None:
            why = f"There is no committed dead letter of connector {self._connector} at this place"
            return ReplayResult(place, ReplayOutcome.MISSING, why=why)
        if conversion.why:
            return ReplayResult(place, ReplayOutcome.FAILED, why=conversion.why)
        return (
            ReplayResult(place, ReplayOutcome.DROPPED)
            if conversion.call is None
            else ReplayResult(place, ReplayOutcome.WRITTEN, str(conversion.call[0]))
        )


def _mark_value(details: Mapping[str, str], conversion: LetterConversion) -> dict[str, str]:
    outcome = {"became": ReplayOutcome.DROPPED.value} if conversion.call is None else {"topic": str(conversion.call[0])}
    return {**details, **outcome}


def _starts(places: Iterable[Place]) -> dict[int, int]:
    starts: dict[int, int] = {}
    for partition, offset in places:
        starts[partition] = min(offset, starts.get(partition, offset))
    return starts


def _letter(record: TailRecord) -> DeadLetter:
    headers = [(name, value) for name, value, _ in record.headers]
    return DeadLetter((record.partition, record.offset), record.timestamp_ms, record.key, record.value, headers)
