"""The leader resigns: it leaves its seat in the group, waits until another worker leads, and takes a seat again.

Its tasks go on: they need no seat, and its record in the status topic says that it is away for a moment only
(`WorkerRecord.away_until_ms`), so the next leader does not place them elsewhere. The group chooses who leads.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace

from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import WorkerId
from ringfence.fencing.leader.assignment import Member
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import LeaderRecord, StatusState, WorkerRecord
from ringfence.requests.refused import Refused

_PATIENCE_SECONDS = 20.0
_AWAY_SECONDS = _PATIENCE_SECONDS + 15.0
"""As long as it waits, and as long as it may take to be a member again."""
_POLL_SECONDS = 0.05

_ALONE = "No other live worker is there to lead: start one, then hand over"
_NOBODY = "No other worker took the leadership within {seconds:g} s: this one leads again. Look at the others' logs"
_LATE = "Request timed out while the leadership was handed over: look who leads before sending it once more"


class Resignation:
    """Asked for by a command on its own thread, carried out by the leader's thread."""

    def __init__(self, worker: WorkerRecord, reporter: Reporter, statuses: Callable[[], StatusState]) -> None:
        self._worker = worker
        self._reporter = reporter
        self._statuses = statuses
        self._lock = threading.Lock()
        self._asked: Future[WorkerId] | None = None

    def ask(self, members: list[Member], limit: Deadline) -> WorkerId:
        """Resign; who leads then. Raises `Refused`, also where nobody else can lead."""
        if all(member.incarnation == self._worker.incarnation for member in members):
            raise Refused(409, _ALONE)
        with self._lock:
            self._asked = asked = self._asked or Future()
        try:
            return asked.result(limit.remaining)
        except FutureTimeout:
            raise Refused(500, _LATE) from None

    def due(self) -> bool:
        """Whether the seat shall be left. From here on the worker says that it is away for a moment only."""
        if self._asked is None:
            return False
        until = self._reporter.now_ms() + int(_AWAY_SECONDS * 1000)
        self._reporter.status(replace(self._worker, away_until_ms=until))
        self._reporter.flush(5)
        return True

    def await_successor(self, poll: Callable[[], None], stop: threading.Event) -> None:
        """With the seat left, follow the status topic (`poll`) until another worker says that it leads."""
        with self._lock:
            asked = self._asked
        if asked is None:
            return
        before = self._statuses().leader
        patience = Deadline.after(_PATIENCE_SECONDS)
        try:
            while not patience.expired and not stop.is_set():
                poll()
                if (successor := self._successor(before)) is not None:
                    asked.set_result(successor)
                    return
                time.sleep(_POLL_SECONDS)
            asked.set_exception(Refused(500, _NOBODY.format(seconds=_PATIENCE_SECONDS)))
        finally:
            with self._lock:
                self._asked = None

    def _successor(self, before: LeaderRecord | None) -> WorkerId | None:
        leader = self._statuses().leader
        if leader is None or leader == before or leader.incarnation == self._worker.incarnation:
            return None
        return leader.worker
