"""Replays dead letters exactly once: their results, and the marks that they were replayed, share one transaction.

1 Create a producer with the connector's transactional id for replays: `init` fences an earlier replay, and ends its
open transaction. 2 Read the dead letters and the marks after them. 3 Send those without a mark through the current
transforms and converters. 4 Write the results, and a mark for each dead letter, in one transaction. A crash before the
end of step 4 changes nothing; a repeated replay finds the marks. Records that fail again stay, without a mark.

A dead letter whose mark is in an undecided transaction is skipped: it is unknown whether it was replayed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.dead_letters.listing import DeadLetterFilter, Replay, ReplayMarks, read_marks
from ringfence.fencing.errors import Fenced, FencingError, Invalid, Retriable, UnknownOutcome
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_tail import Limits, OffsetRange, Reading, TailRecord, edges
from ringfence.fencing.records.dead_letter import DeadLetter, Headers, Place, mark
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.fencing.transactions.record_columns import Record

MOST_LETTERS: Final = 500
MOST_BYTES: Final = 16 * 1024 * 1024
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

        limits = Limits(size=_ALL, headers=_ALL, bytes=_ALL * 1024, kept_bytes=MOST_BYTES, keep=keep)
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
