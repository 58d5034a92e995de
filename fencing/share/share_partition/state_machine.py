"""What the leader of a share-partition does with its records (KIP-932, "In-flight records"). Pure.

A record is Available until somebody acquires it, which counts a delivery and locks it; then it is acknowledged,
released, rejected, or its lock expires. Released or expired as often as the limit allows, it is archived. The
share-partition start offset (SPSO) goes past what is acknowledged or archived; the end offset (SPEO) is the first one
that was never acquired.

Offsets without a record (transaction markers, compacted records) are acquired like the others, and the member answers
GAP for them. Records of an aborted transaction are archived as they are acquired where the group reads read_committed:
no member hears of them, and nothing is persisted of it (Kafka 4.3).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from ringfence.fencing.share.share_partition.batches import Batch, Batches, RecordState, fill, find, overlay, prune


class Acknowledgement(IntEnum):
    """What a member says of an offset it has acquired, under Kafka's numbers. GAP: there is no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """Of all offsets from `first` to `last`, both included."""

    first: int
    last: int
    kind: Acknowledgement


class InvalidTransition(ValueError):
    """The records are not in the state for it, or another member's. Nothing changes."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an operation did, and what is persisted of it.

    written: the ranges that changed, none of them acquired. start_offset: the SPSO *before* it went on, as the leader
    persists first. delivery_complete_count: acknowledged and archived records at or above that (KIP-1226), those of
    aborted transactions, too.
    """

    partition: "SharePartition"
    written: Batches
    start_offset: int
    delivery_complete_count: int


@dataclass(frozen=True, slots=True)
class SharePartition:
    """start: SPSO. end: SPEO. batches: all of what is known between them. lock_s: how long a record stays acquired.

    gap: a leader that has recovered, and found offsets of which nothing was persisted, does not move the start past
    this one. It begins at the first of them, follows the last offset that is acquired, and ends as soon as something at
    or after the recovered end is (Kafka 4.3). None: there is no such limit.
    """

    start: int
    end: int
    batches: Batches = ()
    delivery_limit: int = 5
    lock_s: float = 30.0
    gap: int | None = None

    @classmethod
    def begin(cls, offset: int, delivery_limit: int = 5, lock_s: float = 30.0) -> "SharePartition":
        """One of which nothing was delivered yet."""
        return cls(offset, offset, (), delivery_limit, lock_s)

    @classmethod
    def recover(
        cls, start: int, persisted: Iterable[Batch], delivery_limit: int = 5, lock_s: float = 30.0
    ) -> "SharePartition":
        """From what was persisted. Offsets before the last batch of which nothing is said are available."""
        batches = prune(overlay((), persisted), start)
        end = batches[-1].last + 1 if batches else start
        at = start
        for one in batches:
            if one.first > at:
                break
            at = one.last + 1
        gap = at if at < end else None
        return cls(start, end, fill(batches, start, end - 1), delivery_limit, lock_s, gap)._advance()

    # What members do.

    def find_available(self, limit: int, log_end: int) -> list[tuple[int, int]]:
        """The ranges that a fetch of exactly `limit` offsets acquires: the earliest ones, before `log_end`."""
        found: list[tuple[int, int]] = []
        for one in fill(self.batches, self.start, log_end - 1):
            if limit > 0 and one.state is RecordState.AVAILABLE:
                last = min(one.last, one.first + limit - 1)
                limit -= last - one.first + 1
                found.append((one.first, last))
        return found

    def acquire(
        self, first: int, last: int, member: str, now: float = 0.0, aborted: Iterable[tuple[int, int]] = ()
    ) -> "SharePartition":
        """Lock available records, or the next ones. Nothing is persisted of it.

        Offsets between the end and `first` hold no record. aborted: first and last offsets of records that no reader
        shall see, which are archived; the start stays until the next change. Raises `InvalidTransition`.
        """
        found = find(self.batches, first, last)
        if first < self.start or first > last:
            raise InvalidTransition(f"{first}-{last} is before the start {self.start}, or empty")
        if any(one.state is not RecordState.AVAILABLE for one in found):
            raise InvalidTransition(f"{first}-{last} is not available: {found}")
        until = now + self.lock_s
        known = [
            replace(
                one,
                state=RecordState.ACQUIRED,
                delivery_count=one.delivery_count + 1,
                member=member,
                locked_until=until,
            )
            for one in found
        ]
        whole = Batch(first, last, RecordState.ACQUIRED, 1, member, until)
        acquired = overlay((whole,), known)
        hidden = [
            Batch(part.first, part.last, RecordState.ARCHIVED, part.delivery_count, aborted=True)
            for low, high in aborted
            for part in find(acquired, low, high)
        ]
        return replace(
            self,
            end=max(self.end, last + 1),
            batches=overlay(self.batches, overlay(acquired, hidden)),
            gap=last + 1 if self.gap is not None and last + 1 < self.end else None,
        )

    def acknowledge(self, member: str, answers: Sequence[Answer]) -> Change:
        """All of them or none. Raises `InvalidTransition`."""
        changed: list[Batch] = []
        for answer in answers:
            found = find(self.batches, answer.first, answer.last)
            whole = sum(one.size for one in found) == answer.last - answer.first + 1
            if not whole or any(one.state is not RecordState.ACQUIRED or one.member != member for one in found):
                raise InvalidTransition(f"{answer} is not acquired by {member!r}: {found}")
            changed += [self._end(one, answer.kind) for one in found]
        return self._change(changed)

    def renew(self, member: str, first: int, last: int, now: float) -> "SharePartition":
        """Lock them for as long again. Raises `InvalidTransition`."""
        found = find(self.batches, first, last)
        if not found or any(one.state is not RecordState.ACQUIRED or one.member != member for one in found):
            raise InvalidTransition(f"{first}-{last} is not acquired by {member!r}: {found}")
        renewed = [replace(one, locked_until=now + self.lock_s) for one in found]
        return replace(self, batches=overlay(self.batches, renewed))

    def leave(self, member: str) -> Change:
        """The member's connection is closed, or its session is over: what it holds is released."""
        held = [one for one in self.batches if one.state is RecordState.ACQUIRED and one.member == member]
        return self._change([self._end(one, Acknowledgement.RELEASE) for one in held])

    def expire(self, now: float) -> Change:
        """Locks that are over."""
        held = [one for one in self.batches if one.state is RecordState.ACQUIRED and one.locked_until <= now]
        return self._change([self._end(one, Acknowledgement.RELEASE) for one in held])

    # What the broker and administrators do.

    def truncate(self, log_start: int) -> "SharePartition":
        """The log begins later now: what is before it is nobody's."""
        start = max(self.start, log_start)
        return replace(self, start=start, end=max(self.end, start), batches=prune(self.batches, start))._advance()

    def fold(self) -> Batches:
        """All of it as it may be persisted: neither a delivery that is not over, nor records that were aborted."""
        return overlay((), (_fold(one) for one in self.batches))

    def missing(self, first: int, last: int) -> Batches:
        """What has to be said of these offsets where nothing was persisted of them yet."""
        return fill(find(self.fold(), first, last), first, last)

    def count(self, state: RecordState) -> int:
        """How many records are in a state."""
        return sum(one.size for one in self.batches if one.state is state)

    def _end(self, batch: Batch, kind: Acknowledgement) -> Batch:
        state = _AFTER[kind]
        if state is RecordState.AVAILABLE and batch.delivery_count >= self.delivery_limit:
            state = RecordState.ARCHIVED
        return Batch(batch.first, batch.last, state, batch.delivery_count)

    def _change(self, changed: Sequence[Batch]) -> Change:
        batches = overlay(self.batches, changed)
        complete = sum(one.size for one in batches if one.state.terminal)
        after = replace(self, batches=batches)
        return Change(after._advance(), overlay((), changed), self.start, complete)

    def _advance(self) -> "SharePartition":
        """Past everything at the start that is over."""
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
    if batch.aborted:  # a leader that recovers reads them again, and archives them again
        return Batch(batch.first, batch.last)
    if batch.state is not RecordState.ACQUIRED:
        return batch
    return Batch(batch.first, batch.last, RecordState.AVAILABLE, batch.delivery_count - 1)
