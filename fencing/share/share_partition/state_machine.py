"""The state machine of a share-partition's leader (KIP-932, "In-flight records"). Pure.

A record is Available until a member acquires it, which counts a delivery and locks it. Then it is acknowledged,
released or rejected, or its lock expires. It is archived when its last permitted delivery is released or expires. The
share-partition start offset (SPSO) moves past acknowledged and archived records; the end offset (SPEO) is the first one
that was never acquired.

Offsets without a record (transaction markers, compacted records) are acquired like the others, and the member answers
GAP for them. In a read_committed group, records of an aborted transaction are archived when they are acquired: no
member gets them, and their state is not persisted (Kafka 4.3).

States are ranges of offsets with one state each: a sorted tuple without overlaps, in which adjacent ranges with the
same state are joined. Offsets without a range have not been delivered yet, or hold no record.
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


class Acknowledgement(IntEnum):
    """A member's answer for an offset that it has acquired, with Kafka's numbers. GAP: there is no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """One acknowledgement for all offsets from `first` to `last`, both included."""

    first: int
    last: int
    kind: Acknowledgement


class InvalidTransition(ValueError):
    """The records are in the wrong state, or another member has them. Nothing changes."""


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of an operation, and the part of it that is persisted.

    writes: the ranges that changed, none of them acquired. start_offset: the SPSO *before* it moved, since the leader
    persists first. delivery_complete_count: acknowledged and archived records from there on (KIP-1226), including those
    of aborted transactions.
    """

    partition: "SharePartition"
    writes: Batches
    start_offset: int
    delivery_complete_count: int


@dataclass(frozen=True, slots=True)
class SharePartition:
    """start: SPSO. end: SPEO. batches: all known states between them. lock_s: how long a record stays acquired.

    gap: after a recovery that found offsets without a persisted state, the leader does not move the start past this
    offset. It begins at the first of them, follows the last acquired offset, and is removed when an offset at or after
    the recovered end is acquired (Kafka 4.3). None: there is no such limit.
    """

    start: int
    end: int
    batches: Batches = ()
    delivery_limit: int = 5
    lock_s: float = 30.0
    gap: int | None = None

    @classmethod
    def begin(cls, offset: int, delivery_limit: int = 5, lock_s: float = 30.0) -> "SharePartition":
        """Return a share-partition without deliveries."""
        return cls(offset, offset, (), delivery_limit, lock_s)

    @classmethod
    def recover(
        cls, start: int, persisted_batches: Iterable[Batch], delivery_limit: int = 5, lock_s: float = 30.0
    ) -> "SharePartition":
        """Recover it from its persisted state. Offsets without a state before the last batch are available."""
        batches = prune(overlay((), persisted_batches), start)
        end = batches[-1].last + 1 if batches else start
        at = start
        for one in batches:
            if one.first > at:
                break
            at = one.last + 1
        gap = at if at < end else None
        return cls(start, end, fill(batches, start, end - 1), delivery_limit, lock_s, gap)._advance()

    # Operations of members.

    def find_available(self, limit: int, log_end: int) -> list[tuple[int, int]]:
        """Return the ranges that a fetch of exactly `limit` offsets acquires: the earliest ones, before `log_end`."""
        ranges: list[tuple[int, int]] = []
        for one in fill(self.batches, self.start, log_end - 1):
            if limit > 0 and one.state is RecordState.AVAILABLE:
                last = min(one.last, one.first + limit - 1)
                limit -= last - one.first + 1
                ranges.append((one.first, last))
        return ranges

    def acquire(
        self, first: int, last: int, member: str, now: float = 0.0, aborted_ranges: Iterable[tuple[int, int]] = ()
    ) -> "SharePartition":
        """Lock available records, or the next ones. This is not persisted.

        Offsets between the end and `first` hold no record. aborted_ranges: first and last offsets of records that no
        member may get; they are archived, but the start only moves with the next change. Raises `InvalidTransition`.
        """
        batches = find(self.batches, first, last)
        if first < self.start or first > last:
            raise InvalidTransition(f"{first}-{last} is before the start {self.start}, or empty")
        if any(one.state is not RecordState.AVAILABLE for one in batches):
            raise InvalidTransition(f"{first}-{last} is not available: {batches}")
        until = now + self.lock_s
        updates = [
            replace(
                one,
                state=RecordState.ACQUIRED,
                delivery_count=one.delivery_count + 1,
                member=member,
                locked_until=until,
            )
            for one in batches
        ]
        whole = Batch(first, last, RecordState.ACQUIRED, 1, member, until)
        acquisition = overlay((whole,), updates)
        aborted_batches = [
            Batch(part.first, part.last, RecordState.ARCHIVED, part.delivery_count, aborted=True)
            for low, high in aborted_ranges
            for part in find(acquisition, low, high)
        ]
        return replace(
            self,
            end=max(self.end, last + 1),
            batches=overlay(self.batches, overlay(acquisition, aborted_batches)),
            gap=last + 1 if self.gap is not None and last + 1 < self.end else None,
        )

    def acknowledge(self, member: str, answers: Sequence[Answer]) -> Change:
        """Apply all answers, or none of them. Raises `InvalidTransition`."""
        updates: list[Batch] = []
        for answer in answers:
            batches = find(self.batches, answer.first, answer.last)
            whole = sum(one.size for one in batches) == answer.last - answer.first + 1
            if not whole or any(one.state is not RecordState.ACQUIRED or one.member != member for one in batches):
                raise InvalidTransition(f"{answer} is not acquired by {member!r}: {batches}")
            updates += [self._end(one, answer.kind) for one in batches]
        return self._change(updates)

    def renew(self, member: str, first: int, last: int, now: float) -> "SharePartition":
        """Restart the lock of these records. Raises `InvalidTransition`."""
        batches = find(self.batches, first, last)
        if not batches or any(one.state is not RecordState.ACQUIRED or one.member != member for one in batches):
            raise InvalidTransition(f"{first}-{last} is not acquired by {member!r}: {batches}")
        updates = [replace(one, locked_until=now + self.lock_s) for one in batches]
        return replace(self, batches=overlay(self.batches, updates))

    def leave(self, member: str) -> Change:
        """Release what the member holds: its connection is closed, or its session has ended."""
        batches = [one for one in self.batches if one.state is RecordState.ACQUIRED and one.member == member]
        return self._change([self._end(one, Acknowledgement.RELEASE) for one in batches])

    def expire(self, now: float) -> Change:
        """Release the records whose locks have expired."""
        batches = [one for one in self.batches if one.state is RecordState.ACQUIRED and one.locked_until <= now]
        return self._change([self._end(one, Acknowledgement.RELEASE) for one in batches])

    # Operations of the broker and of administrators.

    def truncate(self, log_start: int) -> "SharePartition":
        """Forget everything before the new start of the log."""
        start = max(self.start, log_start)
        return replace(self, start=start, end=max(self.end, start), batches=prune(self.batches, start))._advance()

    def fold(self) -> Batches:
        """Return the whole state as it may be persisted: without unfinished deliveries and aborted records."""
        return overlay((), (_fold(one) for one in self.batches))

    def missing(self, first: int, last: int) -> Batches:
        """Return what must be persisted of those of these offsets that have no persisted state yet."""
        return fill(find(self.fold(), first, last), first, last)

    def count(self, state: RecordState) -> int:
        """Return how many records are in a state."""
        return sum(one.size for one in self.batches if one.state is state)

    def _end(self, batch: Batch, kind: Acknowledgement) -> Batch:
        state = _AFTER[kind]
        if state is RecordState.AVAILABLE and batch.delivery_count >= self.delivery_limit:
            state = RecordState.ARCHIVED
        return Batch(batch.first, batch.last, state, batch.delivery_count)

    def _change(self, updates: Sequence[Batch]) -> Change:
        batches = overlay(self.batches, updates)
        complete = sum(one.size for one in batches if one.state.terminal)
        after = replace(self, batches=batches)
        return Change(after._advance(), overlay((), updates), self.start, complete)

    def _advance(self) -> "SharePartition":
        """Move the start past all finished records."""
        left = next((at for at, one in enumerate(self.batches) if not one.state.terminal), len(self.batches))
        if left == 0:
            return self
        start = self.batches[left].first if left < len(self.batches) else self.end
        if self.gap is not None:
            start = max(self.start, min(start, self.gap))
        return replace(self, start=start, batches=prune(self.batches, start))


_AFTER = {
    Acknowledgement.ACCEPT: RecordState.ACKNOWLEDGED,
    Acknowledgement.RELEASE: RecordState.AVAILABLE,
    Acknowledgement.REJECT: RecordState.ARCHIVED,
    Acknowledgement.GAP: RecordState.ARCHIVED,
}


def _fold(batch: Batch) -> Batch:
    if batch.aborted:  # a leader that recovers reads and archives them again
        return Batch(batch.first, batch.last)
    if batch.state is not RecordState.ACQUIRED:
        return batch
    return Batch(batch.first, batch.last, RecordState.AVAILABLE, batch.delivery_count - 1)
