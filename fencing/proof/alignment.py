"""Compares the visible records with the counts of an attempt's transactions. Pure.

Kafka completes a transaction in every partition before its producer may begin the next one, so the times of markers
separate transactions. At the border between two transactions, the sums must be equal. One record too many or too few
shifts every later border, so one equal border is enough. Everything before the cut must be compared; of what was
committed while the topics were read, as much as possible.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple


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


def align(borders: Sequence[Border], parts: Iterable[tuple[int, int]], deleted_until_ms: int = -1) -> Alignment:
    """parts: the marker's time and the number of visible records of each part; deleted_until_ms: retention or
    compaction has deleted records up to this time, -1 for none."""
    pairs = sorted(parts)
    times = [time_ms for time_ms, _ in pairs]
    sums = [0, *accumulate(records for _, records in pairs)]
    first, base, before = 0, 0, 0
    if deleted_until_ms >= 0:
        usable = [n for n, each in enumerate(borders[:-1]) if each.time_ms > deleted_until_ms]
        if not usable:
            return Alignment(0, 0, -1, comparable=False)
        first = usable[0] + 1
        base = borders[usable[0]].total
        before = sums[bisect_right(times, _between(borders, usable[0]))]
    early = sum(each.early for each in borders)
    if early == len(borders):
        return Alignment(borders[-1].total - base, sums[-1] - before, borders[-1].time_ms, base)
    lowest = max(first, early - 1)
    for n in range(len(borders) - 1, lowest - 1, -1):
        visible = sums[bisect_right(times, _between(borders, n))] - before
        if visible == borders[n].total - base:
            return Alignment(visible, visible, borders[n].time_ms, base)
    if not early:
        return Alignment(0, 0, -1, comparable=False)  # it began while the topics were read
    visible = sums[bisect_right(times, _between(borders, lowest))] - before
    return Alignment(borders[lowest].total - base, visible, borders[lowest].time_ms, base)


def _between(borders: Sequence[Border], n: int) -> int:
    """Return the last time that belongs to transaction `n`: halfway to the next one's marker."""
    if n + 1 == len(borders):
        return 2**62
    return (borders[n].time_ms + borders[n + 1].time_ms) // 2
