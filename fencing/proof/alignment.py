"""Compares the visible records with the counts of an attempt's transactions. Pure.

Kafka completes a transaction in every partition before its producer may begin the next one, so the times of markers
separate transactions. At the border between two transactions, the sums must be equal. One record too many or too few
shifts every later border, so one equal border is enough. Everything before the cut must be compared; of what was
committed while the topics were read, as much as possible.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple, overload

from ringfence.fencing.proof.tallies import OffsetCommits, Producer, TopicTally


class Result(StrEnum):
    """UNKNOWN: it cannot be counted, and the message says why. NOTE: it is not a fault of the connector."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Check:
    """One claim. remedy: what to do about it, "" if there is nothing to do."""

    name: str
    result: Result
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ProofTally:
    """The counts of a proof. records: by topic; letters: those of the connector's dead letter queue, if it has one.

    ids: the producer ids of the connector's transactional ids, from the coordinators; None without the permission.
    deletions: what retention or compaction has deleted, for messages.
    """

    commits: OffsetCommits
    records: Mapping[str, TopicTally]
    letters: Mapping[str, TopicTally] = field(default_factory=dict)
    ids: frozenset[int] | None = None
    deletions: Sequence[str] = ()

    def own(self, who: Producer) -> bool:
        """Return whether it is a producer of the connector's tasks."""
        return who in self.commits.producers or (self.ids is not None and who.producer_id in self.ids)


class Border(NamedTuple):
    """The end of a transaction: its marker's time, its attempt's count so far, and whether it must be compared."""

    time_ms: int
    total: int
    early: bool


class Alignment(NamedTuple):
    """total: by the transactions; visible: in the topics, up to `until_ms`. base: counts that were left out, since
    their records are deleted; comparable: False if nothing could be compared."""

    total: int
    visible: int
    until_ms: int
    base: int = 0
    comparable: bool = True

    @property
    def difference(self) -> int:
        """The number of surplus records; negative if records are missing."""
        return self.visible - self.total if self.comparable else 0


class Borders(Sequence[Border]):
    """The borders of one attempt, in order, in little memory."""

    def __init__(self, borders: Iterable[Border]) -> None:
        self._times, self._totals, self._early = array("q"), array("q"), array("b")
        for time_ms, total, early in borders:
            self._times.append(time_ms)
            self._totals.append(total)
            self._early.append(early)

    def __len__(self) -> int:
        return len(self._times)

    @overload
    def __getitem__(self, at: int) -> Border: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Border]: ...

    def __getitem__(self, at: int | slice) -> Border | Sequence[Border]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        return Border(self._times[at], self._totals[at], bool(self._early[at]))


class _Sums:
    """How many records are visible up to the end of each transaction."""

    def __init__(self, borders: Sequence[Border], parts: Iterable[tuple[int, int]]) -> None:
        self._borders = borders
        self._ends = array("q", sorted({_between(borders, n) for n in range(len(borders))}))
        sums = array("q", bytes(8 * (len(self._ends) + 1)))
        for time_ms, records in parts:
            sums[bisect_left(self._ends, time_ms)] += records
        self._sums = array("q", accumulate(sums))

    def up_to(self, n: int) -> int:
        """Return the records of parts that belong to transaction `n` or one before it."""
        return self._sums[bisect_left(self._ends, _between(self._borders, n))]

    @property
    def total(self) -> int:
        return self._sums[-1]


def align(borders: Sequence[Border], parts: Iterable[tuple[int, int]], deleted_until_ms: int = -1) -> Alignment:
    """parts: the marker's time and the number of visible records of each part; deleted_until_ms: retention or
    compaction has deleted records up to this time, -1 for none."""
    sums = _Sums(borders, parts)
    first, base, before = 0, 0, 0
    if deleted_until_ms >= 0:
        usable = next((n for n in range(len(borders) - 1) if borders[n].time_ms > deleted_until_ms), None)
        if usable is None:
            return Alignment(0, 0, -1, comparable=False)
        first = usable + 1
        base = borders[usable].total
        before = sums.up_to(usable)
    early = sum(each.early for each in borders)
    if early == len(borders):
        return Alignment(borders[-1].total - base, sums.total - before, borders[-1].time_ms, base)
    lowest = max(first, early - 1)
    for n in range(len(borders) - 1, lowest - 1, -1):
        visible = sums.up_to(n) - before
        if visible == borders[n].total - base:
            return Alignment(visible, visible, borders[n].time_ms, base)
    if not early:
        return Alignment(0, 0, -1, comparable=False)  # it began while the topics were read
    visible = sums.up_to(lowest) - before
    return Alignment(borders[lowest].total - base, visible, borders[lowest].time_ms, base)


def _between(borders: Sequence[Border], n: int) -> int:
    """Return the last time that belongs to transaction `n`: halfway to the next one's marker."""
    if n + 1 == len(borders):
        return 2**62
    return (borders[n].time_ms + borders[n + 1].time_ms) // 2
