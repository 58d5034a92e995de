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
    counted: int
    early: bool


class Alignment(NamedTuple):
    """counted: by the transactions; visible: in the topics, up to `until_ms`. base: counts that were left out, since
    their records are deleted; judged: False if nothing could be compared."""

    counted: int
    visible: int
    until_ms: int
    base: int = 0
    judged: bool = True

    @property
    def difference(self) -> int:
        """The number of surplus records; negative if records are missing."""
        return self.visible - self.counted if self.judged else 0


def align(borders: Sequence[Border], parts: Iterable[tuple[int, int]], deleted_until_ms: int = -1) -> Alignment:
    """parts: the marker's time and the number of visible records of each part; deleted_until_ms: retention or
    compaction has deleted records up to this time, -1 for none."""
    ordered = sorted(parts)
    times = [time_ms for time_ms, _ in ordered]
    sums = [0, *accumulate(records for _, records in ordered)]
    first, base, before = 0, 0, 0
    if deleted_until_ms >= 0:
        known = [n for n, each in enumerate(borders[:-1]) if each.time_ms > deleted_until_ms]
        if not known:
            return Alignment(0, 0, -1, judged=False)
        first = known[0] + 1
        base = borders[known[0]].counted
        before = sums[bisect_right(times, _between(borders, known[0]))]
    early = sum(each.early for each in borders)
    if early == len(borders):
        return Alignment(borders[-1].counted - base, sums[-1] - before, borders[-1].time_ms, base)
    lowest = max(first, early - 1)
    for n in range(len(borders) - 1, lowest - 1, -1):
        seen = sums[bisect_right(times, _between(borders, n))] - before
        if seen == borders[n].counted - base:
            return Alignment(seen, seen, borders[n].time_ms, base)
    if not early:
        return Alignment(0, 0, -1, judged=False)  # it began while the topics were read
    seen = sums[bisect_right(times, _between(borders, lowest))] - before
    return Alignment(borders[lowest].counted - base, seen, borders[lowest].time_ms, base)


def _between(borders: Sequence[Border], n: int) -> int:
    """Return the last time that belongs to transaction `n`: halfway to the next one's marker."""
    if n + 1 == len(borders):
        return 2**62
    return (borders[n].time_ms + borders[n + 1].time_ms) // 2
