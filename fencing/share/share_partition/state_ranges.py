"""Ranges of offsets with one state each, and the ways to combine two lists of them. Pure.

A list is a sorted tuple without overlaps; adjacent ranges with the same state are joined. Offsets without a batch have
not been delivered yet, or hold no record.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum


class RecordState(IntEnum):
    """The numbers are those of the persisted form, which never has ACQUIRED."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def terminal(self) -> bool:
        """Whether no delivery follows."""
        return self >= RecordState.ACKNOWLEDGED


@dataclass(frozen=True, slots=True)
class Batch:
    """Offsets from `first` to `last`, both included.

    member, locked_until: only for acquired records; the time is in seconds of the caller's clock. aborted: archived
    because their transaction was aborted, which is never persisted.
    """

    first: int
    last: int
    state: RecordState = RecordState.AVAILABLE
    delivery_count: int = 0
    member: str = ""
    locked_until: float = 0.0
    aborted: bool = False

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    def cut(self, first: int, last: int) -> "Batch":
        """Return the part of it between these offsets."""
        return replace(self, first=max(first, self.first), last=min(last, self.last))

    def says_same(self, other: "Batch") -> bool:
        """Return whether the two differ only in their offsets."""
        return replace(self, first=other.first, last=other.last) == other


Batches = tuple[Batch, ...]


def overlay(batches: Sequence[Batch], newer: Iterable[Batch]) -> Batches:
    """Combine two lists; the newer state wins."""
    return _combine(batches, newer, lambda _, new: new)


def merge(batches: Sequence[Batch], newer: Iterable[Batch]) -> Batches:
    """Combine as Kafka's share coordinator does: the greater delivery count wins, then the greater state."""
    return _combine(batches, newer, lambda old, new: new if _rank(new) >= _rank(old) else old)


def prune(batches: Iterable[Batch], start: int) -> Batches:
    """Return the batches without everything before `start`."""
    return tuple(one.cut(start, one.last) for one in batches if one.last >= start)


def fill(batches: Sequence[Batch], first: int, last: int) -> Batches:
    """Return batches for all offsets between the two; those without a batch are available and not delivered yet."""
    return overlay((Batch(first, last),), find(batches, first, last)) if first <= last else ()


def find(batches: Iterable[Batch], first: int, last: int) -> Batches:
    """Return the batches between the two offsets, cut to them."""
    return tuple(one.cut(first, last) for one in batches if one.first <= last and one.last >= first)


def _rank(batch: Batch) -> tuple[int, int]:
    return batch.delivery_count, batch.state


def _combine(batches: Sequence[Batch], newer: Iterable[Batch], choose: Callable[[Batch, Batch], Batch]) -> Batches:
    result = list(batches)
    for new in newer:
        low = bisect_left(result, new.first, key=lambda one: one.last)
        high = bisect_right(result, new.last, key=lambda one: one.first)
        result[low:high] = _settle(result[low:high], new, choose)
    return _join(result)


def _settle(overlaps: Sequence[Batch], new: Batch, choose: Callable[[Batch, Batch], Batch]) -> Iterator[Batch]:
    """Combine a new batch with those that it overlaps, in the order of their offsets."""
    at = new.first
    for one in overlaps:
        if one.first < new.first:
            yield one.cut(one.first, new.first - 1)
        if at < one.first:
            yield new.cut(at, one.first - 1)
        first, at = max(one.first, new.first), min(one.last, new.last) + 1
        yield choose(one, new).cut(first, at - 1)
        if one.last > new.last:
            yield one.cut(new.last + 1, one.last)
    if at <= new.last:
        yield new.cut(at, new.last)


def _join(batches: Iterable[Batch]) -> Batches:
    result: list[Batch] = []
    for one in batches:
        if result and result[-1].last + 1 == one.first and result[-1].says_same(one):
            result[-1] = replace(result[-1], last=one.last)
        else:
            result.append(one)
    return tuple(result)
