"""Whether the records that are visible are those that an attempt's transactions count. Pure.

Kafka completes a transaction in every partition before its producer may begin the next one, so the times of markers
tell transactions apart. Records are counted at the border between two transactions, and there the sums must agree. A
record too many or too few shifts every later border, so one border that fits is enough. What was committed before the
cut has to be judged; of what came while the topics were read, as much as fits.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple


class Border(NamedTuple):
    """After a transaction: the time of its marker, what its attempt counts with it, whether it must be judged."""

    time_ms: int
    counted: int
    early: bool


class Aligned(NamedTuple):
    """counted: what transactions say; visible: what stands there, up to `until_ms`. `base`: counts that were left out,
    since their records are deleted; judged: False where nothing could be compared."""

    counted: int
    visible: int
    until_ms: int
    base: int = 0
    judged: bool = True

    @property
    def difference(self) -> int:
        """Records too many; negative: missing."""
        return self.visible - self.counted if self.judged else 0


def align(borders: Sequence[Border], parts: Iterable[tuple[int, int]], deleted_until_ms: int = -1) -> Aligned:
    """parts: time of the marker and number of records of what is visible; deleted_until_ms: retention or compaction
    took records of up to then, -1 for none."""
    ordered = sorted(parts)
    times = [time_ms for time_ms, _ in ordered]
    sums = [0, *accumulate(records for _, records in ordered)]
    first, base, before = 0, 0, 0
    if deleted_until_ms >= 0:
        known = [n for n, each in enumerate(borders[:-1]) if each.time_ms > deleted_until_ms]
        if not known:
            return Aligned(0, 0, -1, judged=False)
        first = known[0] + 1
        base = borders[known[0]].counted
        before = sums[bisect_right(times, _between(borders, known[0]))]
    early = sum(each.early for each in borders)
    if early == len(borders):
        return Aligned(borders[-1].counted - base, sums[-1] - before, borders[-1].time_ms, base)
    lowest = max(first, early - 1)
    for n in range(len(borders) - 1, lowest - 1, -1):
        seen = sums[bisect_right(times, _between(borders, n))] - before
        if seen == borders[n].counted - base:
            return Aligned(seen, seen, borders[n].time_ms, base)
    if not early:
        return Aligned(0, 0, -1, judged=False)  # it began while the topics were read
    seen = sums[bisect_right(times, _between(borders, lowest))] - before
    return Aligned(borders[lowest].counted - base, seen, borders[lowest].time_ms, base)


def _between(borders: Sequence[Border], n: int) -> int:
    """The last time that belongs to transaction `n`: in the middle to the next one's marker."""
    if n + 1 == len(borders):
        return 2**62
    return (borders[n].time_ms + borders[n + 1].time_ms) // 2
