"""Sets of offsets as sorted ranges, both ends included. Pure."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ringfence.fencing.share.input_topics import ShareRecord

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

Pair = Sequence[int]
"""The first and the last offset of a range."""


class Ranges:
    """Offsets in few ranges: neighbours are joined."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in pairs:
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        """Include these offsets."""
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high], self._lasts[low:high] = [first], [last]

    def update(self, other: "Ranges") -> None:
        """Include all of another set."""
        for first, last in other:
            self.add(first, last)

    def drop_below(self, offset: int) -> None:
        """Forget everything before `offset`."""
        at = bisect_left(self._lasts, offset)
        del self._firsts[:at], self._lasts[:at]
        if self._firsts:
            self._firsts[0] = max(self._firsts[0], offset)

    def meets(self, first: int, last: int) -> bool:
        """Return whether any of these offsets is in the set."""
        at = bisect_left(self._lasts, first)
        return at < len(self._firsts) and self._firsts[at] <= last

    def overlaps(self, other: "Ranges") -> bool:
        """Return whether the two sets share an offset."""
        return any(self.meets(first, last) for first, last in other)

    def missing(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between these offsets that are not in the set."""
        while first <= last:
            at = bisect_left(self._lasts, first)
            if at == len(self._firsts) or self._firsts[at] > last:
                yield first, last
                return
            if self._firsts[at] > first:
                yield first, self._firsts[at] - 1
            first = self._lasts[at] + 1

    def first_missing(self, start: int) -> int:
        """Return the first offset from `start` on that is not in the set."""
        at = bisect_left(self._lasts, start)
        return self._lasts[at] + 1 if at < len(self._firsts) and self._firsts[at] <= start else start

    @property
    def end(self) -> int:
        """One past the greatest offset; 0 for an empty set."""
        return self._lasts[-1] + 1 if self._lasts else 0

    @property
    def size(self) -> int:
        """The number of offsets."""
        return sum(self._lasts) - sum(self._firsts) + len(self._lasts)

    def copy(self) -> "Ranges":
        ranges = Ranges()
        ranges._firsts, ranges._lasts = self._firsts[:], self._lasts[:]
        return ranges

    def pairs(self) -> list[list[int]]:
        """Return the ranges as JSON."""
        return [[first, last] for first, last in self]

    def __contains__(self, offset: int) -> bool:
        return self.meets(offset, offset)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self._firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and (self._firsts, self._lasts) == (other._firsts, other._lasts)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Ranges({self.pairs()})"


MOST: Final = 200
"""The maximum of ranges in a report."""

LockedRanges = tuple[tuple[str, int, int, int], ...]
"""Topic, partition, first and last offset of each range."""


def find_held(records: "Iterable[ShareRecord]") -> LockedRanges:
    """Return those of these records that the broker has locked, as ranges."""
    by_partition: dict[tuple[str, int], Ranges] = {}
    for record in records:
        if record.message is not None:
            by_partition.setdefault((record.topic, record.partition), Ranges()).add(record.offset, record.offset)
    return tuple((*place, *pair) for place, ranges in sorted(by_partition.items()) for pair in ranges)[:MOST]
