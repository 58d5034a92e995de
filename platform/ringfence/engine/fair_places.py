"""Places in a pool, shared fairly between accounts: none has more than half, and each account has its own queue.

A question brings the name of its account along (`account`). The worker counts, not the web process: a place is free
again when the work has ended, even if nobody waits for its answer any more.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from ringfence.fencing.clock import Deadline
from ringfence.requests.request import Refusal

account: ContextVar[str | None] = ContextVar("account", default=None)
"""The account whose question this thread answers. None for the platform's own work, which has no limit of its own."""


class NoPlace(Exception):
    """No place became free in time. own: the account itself has all that it may have."""

    def __init__(self, *, own: bool) -> None:
        super().__init__("no place is free")
        self.own = own


def next_in_line(waiting: Sequence[str | None], running: Mapping[str | None, int], each: int) -> int | None:
    """Return the index of the request that gets the next free place; None if all of their accounts have enough.

    It is the oldest one of the account with the fewest places. waiting: the accounts of the requests, oldest first.
    """
    candidates = [n for n, who in enumerate(waiting) if who is None or running.get(who, 0) < each]
    return min(candidates, key=lambda n: (running.get(waiting[n], 0), n), default=None)


class FairPlaces:
    """At most `total` places at a time, and `each` of one account: half of them, but at least one. Thread-safe."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.each = max(1, total // 2)
        self._changed = threading.Condition()
        self._running: Counter[str | None] = Counter()
        self._tickets = itertools.count()
        self._waiting: dict[int, str | None] = {}
        self._resting: Counter[str | None] = Counter()
        """Places that are free for all accounts but this one."""

    @contextmanager
    def take(self, limit: Deadline | None = None) -> Iterator[None]:
        """Occupy a place within the block, for the current `account`. See `enter`."""
        who = account.get()
        self.enter(who, limit)
        try:
            yield
        finally:
            self.leave(who)

    def enter(self, who: str | None, limit: Deadline | None = None) -> None:
        """Occupy a place; wait for one until the limit, or not at all. Raises `NoPlace`."""
        with self._changed:
            ticket = next(self._tickets)
            self._waiting[ticket] = who
            try:
                while not self._is_next(ticket):
                    if limit is None or limit.expired:
                        raise NoPlace(own=who is not None and self._count_taken()[who] >= self.each)
                    self._changed.wait(limit.remaining)
                self._running[who] += 1
            finally:
                del self._waiting[ticket]
                self._changed.notify_all()

    def leave(self, who: str | None, *, rest_s: float = 0) -> None:
        """Free the place of `enter`. Any thread may do that. rest_s: how long this account cannot use it again."""
        with self._changed:
            _subtract(self._running, who)
            if rest_s and who is not None:
                self._resting[who] += 1
                timer = threading.Timer(rest_s, self._end_rest, (who,))
                timer.daemon = True
                timer.start()
            self._changed.notify_all()

    def _end_rest(self, who: str) -> None:
        with self._changed:
            _subtract(self._resting, who)
            self._changed.notify_all()

    def _count_taken(self) -> Counter[str | None]:
        return self._running + self._resting

    def _is_next(self, ticket: int) -> bool:
        if self._running.total() >= self.total:
            return False
        tickets = list(self._waiting)
        index = next_in_line(list(self._waiting.values()), self._count_taken(), self.each)
        return index is not None and tickets[index] == ticket


def _subtract(counts: Counter[str | None], who: str | None) -> None:
    counts[who] -= 1
    if counts[who] <= 0:
        del counts[who]


def enter(places: FairPlaces, kind: str, who: str | None, limit: Deadline | None = None) -> None:
    """Occupy a place, as `FairPlaces.enter`. kind: what they are for, in plural. Raises `Refusal` if there is none."""
    try:
        places.enter(who, limit)
    except NoPlace as busy:
        if busy.own:
            text = f"{places.each} {kind} of your account, as many as it may have, are under way on this worker"
        else:
            text = f"{places.total} {kind} are under way on this worker"
        raise Refusal(503, f"{text}. Ask again in a moment", retry=True) from busy


@contextmanager
def place_for(places: FairPlaces, kind: str, limit: Deadline) -> Iterator[None]:
    """Occupy a place for the current account within the block. Raises `Refusal`, as `enter`."""
    who = account.get()
    enter(places, kind, who, limit)
    try:
        yield
    finally:
        places.leave(who)
