"""Limits the concurrent requests of one account: those that compute here, and those that wait for a worker, which are
questions (validation, previews …) and commands, each in a lane of its own.

Every request with a body computes in a place of `COMPUTING`, from its permission check to its answer, whatever its view
does (`middleware.py`), and every other one reads in a place of `READING`; while it waits for a worker it gives
that place back. Requests of senders without a login have `STRANGERS`, by address. Each request occupies a thread of the
web process: the lanes together always leave some of them free for health and logins, and no account can fill a lane
alone. Each web process counts for itself, and frees a place when nobody waits any more; a worker counts its own work
(`engine.fair_places`), which may go on until its deadline.
"""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass

from django.conf import settings

NOBODY = "(without a login)"

asking: ContextVar[str | None] = ContextVar("asking", default=None)
"""The account whose request this thread answers, "" if no login is required; None outside requests: unlimited."""

current_hold: ContextVar["Hold | None"] = ContextVar("current_hold", default=None)
"""The place in which this thread's request computes."""

_MOST_KNOWN = 10_000
_WAITING = 4


class TooMany(Exception):
    """More than the account may have in progress, or send in so short a time. message: for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Limits:
    """each: concurrent requests of one account; together: of all. waiting: how many requests may wait for their turn.

    burst, per_second: how many requests an account may start at once, and the rate at which this is replenished.
    """

    each: int
    together: int
    waiting: int
    burst: int
    per_second: float
    patience: float = 2.0


class Lane:
    """The requests in progress of one kind. Thread-safe."""

    def __init__(self, kind: str, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._kind = kind
        self._limits = limits
        self._clock = clock
        self._changed = threading.Condition()
        self._running: Counter[str] = Counter()
        self._waiting = 0
        self._left: dict[str, tuple[float, float]] = {}

    @contextmanager
    def take(self, who: str | None = None) -> Iterator[None]:
        """Occupy a place within the block, of `who` or of the account that asks. Waits a moment for one; raises
        `TooMany` if none becomes free.
        """
        who = asking.get() if who is None else who
        if who is None:
            yield
            return
        self._enter(who)
        try:
            yield
        finally:
            self.leave(who)

    def hold(self, who: str) -> "Hold":
        """Occupy a place until it is released. Waits a moment for one; raises `TooMany` if none becomes free."""
        self._enter(who)
        return Hold(self, who)

    def enter_again(self, who: str) -> None:
        """Occupy a place that was given back for a while, also beyond the limits: the request is half done."""
        with self._changed:
            self._running[who] += 1

    def leave(self, who: str) -> None:
        with self._changed:
            self._running[who] -= 1
            if not self._running[who]:
                del self._running[who]
            self._changed.notify_all()

    def _enter(self, who: str) -> None:
        until = self._clock() + self._limits.patience
        with self._changed:
            refused = self._refusal(who)
            if refused and self._waiting < self._limits.waiting:
                self._waiting += 1
                try:
                    while refused and (left := until - self._clock()) > 0:
                        self._changed.wait(min(left, 0.1))  # the rate is replenished without a notification
                        refused = self._refusal(who)
                finally:
                    self._waiting -= 1
            if refused:
                raise TooMany(refused)
            self._running[who] += 1
            left_over, _ = self._tokens(who)
            self._left[who] = left_over - 1, self._clock()

    def _refusal(self, who: str) -> str:
        """Return why it must wait, "" if it need not."""
        limits = self._limits
        if self._running[who] >= limits.each:
            return f"{limits.each} {self._kind} of yours are in progress: wait for their answers. Nothing was changed."
        if self._running.total() >= limits.together:
            return f"The server is busy with {self._kind} of others: try again. Nothing was changed."
        if self._tokens(who)[0] < 1:
            return f"More than {limits.per_second:g} {self._kind} per second: send them slower. Nothing was changed."
        return ""

    def _tokens(self, who: str) -> tuple[float, float]:
        now = self._clock()
        left, at = self._left.get(who, (float(self._limits.burst), now))
        if len(self._left) > _MOST_KNOWN:
            self._left.clear()
        return min(self._limits.burst, left + (now - at) * self._limits.per_second), now


class Ticket:
    """A request that waits in a `QueuedLane` for its place."""

    def __init__(self) -> None:
        self.hold: Hold | None = None
        self._loop = asyncio.get_running_loop()
        self._granted = asyncio.Event()

    def grant(self, hold: "Hold") -> None:
        """Give it its place, from any thread."""
        self.hold = hold
        with suppress(RuntimeError):  # the process ends, and nobody waits in its loop
            self._loop.call_soon_threadsafe(self._granted.set)

    async def wait(self, seconds: float) -> None:
        """Return once it has its place, or when the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._granted.wait()


class QueuedLane:
    """Places for which a request waits without a thread: who gets none at once is answered again once it has one.

    A place that becomes free is of the account that has the fewest: nobody waits behind many requests of another one.
    Thread-safe; `wait` is for the event loop.
    """

    def __init__(self, kind: str, each: int, together: int) -> None:
        """each: places of one account; together: of all."""
        self._kind = kind
        self._each, self._together = each, together
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._lines: dict[str, deque[Ticket]] = {}  # none is empty

    def hold(self, who: str) -> "Hold":
        """Occupy a place until it is released. Raises `TooMany` if there is none, or if the account waits for one."""
        with self._lock:
            if who in self._lines or not self._has_place(who):
                raise TooMany(f"Too many {self._kind} are in progress: wait for their answers. Nothing was changed.")
            self._running[who] += 1
        return Hold(self, who)

    async def wait(self, who: str, seconds: float) -> "Hold | None":
        """Wait for a place, and occupy it until it is released. Return None if none becomes free in time."""
        ticket = Ticket()
        with self._lock:
            self._lines.setdefault(who, deque()).append(ticket)
            self._serve()
        try:
            await ticket.wait(seconds)
        except BaseException:
            if (hold := self._withdraw(who, ticket)) is not None:
                hold.release()
            raise
        return self._withdraw(who, ticket)

    def enter_again(self, who: str) -> None:
        """Occupy a place that was given back for a while, also beyond the limits: the request is half done."""
        with self._lock:
            self._running[who] += 1

    def leave(self, who: str) -> None:
        with self._lock:
            self._running[who] -= 1
            if not self._running[who]:
                del self._running[who]
            self._serve()

    def _has_place(self, who: str) -> bool:
        return self._running[who] < self._each and self._running.total() < self._together

    def _serve(self) -> None:
        """Give free places to those who wait."""
        while due := [who for who in self._lines if self._has_place(who)]:
            who = min(due, key=lambda each: self._running[each])
            line = self._lines[who]
            ticket = line.popleft()
            if not line:
                del self._lines[who]
            self._running[who] += 1
            ticket.grant(Hold(self, who))

    def _withdraw(self, who: str, ticket: Ticket) -> "Hold | None":
        """Wait no longer. Return the place, if it was granted."""
        with self._lock:
            line = self._lines.get(who)
            if ticket.hold is None and line is not None:
                line.remove(ticket)
                if not line:
                    del self._lines[who]
            return ticket.hold


class Hold:
    """A place in a lane, from `hold` to `release`."""

    def __init__(self, lane: Lane | QueuedLane, who: str) -> None:
        self._lane = lane
        self._who = who
        self._active = True

    @contextmanager
    def give_back(self) -> Iterator[None]:
        """Leave the place free within the block, in which the request only waits."""
        self._lane.leave(self._who)
        try:
            yield
        finally:
            self._lane.enter_again(self._who)

    def release(self) -> None:
        if self._active:
            self._active = False
            self._lane.leave(self._who)


@contextmanager
def waiting() -> Iterator[None]:
    """Let others compute within the block, in which this thread's request waits for a worker."""
    place = current_hold.get()
    with nullcontext() if place is None else place.give_back():
        yield


def _limits(each: int, together: int) -> Limits:
    text = settings.REQUEST_LIMITS
    return Limits(each, together, _WAITING, burst=text.requests_burst, per_second=text.requests_per_second)


# By default, together 148 of the web process's 168 threads (web/asgi_handler.py), and never more. Work behind answers
# has 12 others (after_answer.py).
_request_limits = settings.REQUEST_LIMITS
QUESTIONS = Lane("questions", _limits(_request_limits.queries_per_account, _request_limits.queries_total))
COMMANDS = Lane("commands", _limits(_request_limits.commands_per_account, _request_limits.commands_total))
COMPUTING = Lane("requests", Limits(4, 6, waiting=16, burst=1_000, per_second=200, patience=10.0))
SETTLING = Lane("waiting requests", Limits(16, 24, waiting=0, burst=1_000, per_second=200))
"""Where the rows do not follow, each request of an account that has written would occupy a thread for seconds."""
SCRAPES = Lane("scrapes", Limits(2, 4, waiting=0, burst=100, per_second=10))
STRANGERS = Lane("requests without a login", Limits(2, 4, waiting=2, burst=300, per_second=30, patience=5.0))
WRONG_TOKENS = Lane("requests with a wrong token", Limits(2, 4, waiting=4, burst=300, per_second=100))
"""Each one is counted in the database, whose rows somebody may hold for seconds."""
READING = QueuedLane("requests", each=16, together=32)
READING_PATIENCE = 10.0
"""Seconds that a read waits for its place."""
