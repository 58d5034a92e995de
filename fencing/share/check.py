"""What a transaction does between its last record and its commit: it makes sure that its claim is the first.

1 the claim is in the ledger, at a known offset; 2 the ledger is read up to it; 3 an earlier claim on the same offsets
that is committed: abort, and filter again; one that is undecided is waited for, until its marker is there. After a
while its slot is fenced, which is no decision either: only the marker is. 4 None is left: commit.

Two committed transactions cannot have an offset in common: the later claim of the two was committed after the earlier
one had been seen, and seen to be aborted. No clock, lock, count or membership is needed for that.
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

    fence(slots): ends what is open under these slots' transactional ids. patience_s: how long to wait for an undecided
    claim before that; longer than a transaction takes, or tasks that are only slow are disturbed.
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
        """The ledger is read by another one."""
        self._tail = tail

    def run(self, claims: Claims, at: int, deadline: Deadline, stopping: Callable[[], bool]) -> None:
        """Returns when the claim at ledger offset `at` is the first on all of its offsets. Else raises `Abortable`."""
        if not self._tail.wait(lambda: self._tail.position > at, deadline.remaining):
            raise Abortable(f"The ledger could not be read up to the claim at {at} in time: the transaction is aborted")
        fence_at = self._clock.monotonic() + self._patience_s
        while True:
            rivals = self._rivals(claims, at)
            if rivals.committed:
                self.conflicts += 1
                raise Abortable("Another task has committed some of these records: they are left to it", BLOCKED)
            if not rivals.undecided:
                return
            if deadline.expired or stopping():
                raise Abortable("Another task's claim on these records is not decided yet", BLOCKED)
            if self._clock.monotonic() >= fence_at:
                self._end(sorted(rivals.undecided - {self._slot}), deadline)
                fence_at = self._clock.monotonic() + self._patience_s
            wait = min(_LOOK_SECONDS, max(0.01, fence_at - self._clock.monotonic()))
            self._tail.wait(lambda seen=rivals: self._rivals(claims, at) != seen, wait)  # type: ignore[misc]

    def _rivals(self, claims: Claims, at: int) -> Rivals:
        with self._tail.changed:
            return self._tail.ledger.find_rivals(claims, at)

    def _end(self, slots: Sequence[int], deadline: Deadline) -> None:
        if not slots:
            return
        log.warning("Tasks %s hold records for long and are fenced; they begin again if they live", slots)
        self.fences += len(slots)
        try:
            self._fence(slots, deadline)
        except Retriable as error:
            log.info("%s", error)
        except FencingError as error:
            raise Abortable(f"Tasks {list(slots)} hold records, and cannot be fenced: {error}", error.code) from error
