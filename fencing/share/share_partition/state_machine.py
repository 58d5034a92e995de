"""The state machine of a share-partition's leader (KIP-932, "In-flight records"). Pure.

A record is Available until a member acquires it, which counts a delivery and locks it. Then it is acknowledged,
released or rejected, or its lock expires. It is archived when its last permitted delivery is released or expires. The
share-partition start offset (SPSO) moves past acknowledged and archived records; the end offset (SPEO) is the first one
that was never acquired.

Offsets without a record (transaction markers, compacted records) are acquired like the others, and the member answers
GAP for them. In a read_committed group, records of an aborted transaction are archived when they are acquired: no
member gets them, and their state is not persisted (Kafka 4.3).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from ringfence.fencing.share.share_partition.state_ranges import Batch, Batches, RecordState, fill, find, overlay, prune


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
