"""Makes sure, between the last record of a transaction and its commit, that its claim is the first.

1. The claim is in the ledger, at a known offset.
2. The ledger is read up to that offset.
3. If an earlier claim on the same offsets is committed, abort and filter the records again. If it is undecided, wait
   for its marker. After a while its slot is fenced, but only the marker decides.
4. If no earlier claim is left, commit.

Two committed transactions never have an offset in common: before the later claim was committed, the earlier one was
seen to be aborted. This needs no clock, lock, count or membership.
"""

import logging
from collections.abc import Callable, Sequence

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Abortable, FencingError, Retriable
from ringfence.fencing.share.ledger import Rivals
from ringfence.fencing.share.ledger_records import Claims
from ringfence.fencing.share.ledger_tail import LedgerTail

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
BLOCKED = "CLAIMED_BY_ANOTHER"


class ClaimCheck:
    """The check of one task.

    fence(slots): ends the open transactions of these slots' transactional ids. patience_s: how long to wait for an
    undecided claim before that. It must be longer than a transaction takes, or slow tasks are fenced.
    """

    def __init__(
        self,
        tail: LedgerTail,
        slot: int,
        fence: Callable[[Sequence[int], Deadline], None],
        clock: Clock,
        patience_s: float,
    ) -> None:
        self._tail = tail
        self._slot = slot
        self._fence = fence
        self._clock = clock
        self._patience_s = patience_s
        self.conflicts = 0
        self.fences = 0

    def restart(self, tail: LedgerTail) -> None:
        """Continue with another reader of the ledger."""
        self._tail = tail

    def run(self, claims: Claims, at: int, deadline: Deadline, stopping: Callable[[], bool]) -> None:
        """Return when the claim at ledger offset `at` is the first on all of its offsets; else raise `Abortable`."""
        if not self._tail.wait(lambda: self._tail.position > at, deadline.remaining):
            raise Abortable(f"The ledger could not be read up to the claim at {at} in time: the transaction is aborted")
        fence_at = self._clock.monotonic() + self._patience_s
        while True:
            rivals = self._rivals(claims, at)
            if rivals.committed:
                self.conflicts += 1
                raise Abortable("Another task has committed some of these records, so this task skips them", BLOCKED)
            if not rivals.open_slots:
                return
            if deadline.expired or stopping():
                raise Abortable("Another task's claim on these records is not decided yet", BLOCKED)
            if self._clock.monotonic() >= fence_at:
                self._end(sorted(rivals.open_slots - {self._slot}), deadline)
                fence_at = self._clock.monotonic() + self._patience_s
            wait = min(_LOOK_SECONDS, max(0.01, fence_at - self._clock.monotonic()))
            self._tail.wait(lambda last=rivals: self._rivals(claims, at) != last, wait)  # type: ignore[misc]

    def _rivals(self, claims: Claims, at: int) -> Rivals:
        with self._tail.condition:
            return self._tail.ledger.find_rivals(claims, at)

    def _end(self, slots: Sequence[int], deadline: Deadline) -> None:
        if not slots:
            return
        log.warning("Tasks %s have blocked records for too long and are fenced; if they are alive, they restart", slots)
        self.fences += len(slots)
        try:
            self._fence(slots, deadline)
        except Retriable as error:
            log.info("%s", error)
        except FencingError as error:
            raise Abortable(f"Tasks {list(slots)} block records, and cannot be fenced: {error}", error.code) from error
