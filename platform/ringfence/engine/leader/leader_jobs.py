"""Plans that wait for the leader's thread: those of an account in order, and accounts in turn."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from ringfence.engine.leader.command_plans import Plan, Records
from ringfence.engine.leader.write_result import WriteResult
from ringfence.fencing import request_context
from ringfence.fencing.clock import Deadline
from ringfence.fencing.request_context import RequestContext
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.requests.refusal import Refusal

_MOST_REMEMBERED: Final = 1_000
"""Accounts that were served."""


@dataclass(slots=True)
class Job:
    """A plan with its deadline, and the future for its result."""

    plan: Plan
    deadline: Deadline
    account: str = ""
    """Whose it is; "" for the platform's own."""
    result: "Future[WriteResult]" = field(default_factory=Future)
    put_at: float = field(default_factory=time.perf_counter)
    request: RequestContext = field(default_factory=request_context.current)
    """The one that the thread works for that made the job."""

    def due(self, state: ClusterState) -> Records:
        """Return the plan's records. Raises `Refusal` if the deadline has passed."""
        if self.deadline.expired:
            raise Refusal(500, "Request timed out before it was carried out: nothing was changed. Send it again")
        return self.plan(state)


class Jobs:
    """A queue. Any thread puts jobs in; the leader's thread takes them. The next one is of the account that was served
    the longest ago: nobody waits behind those who were served before, however many jobs they send.
    """

    def __init__(self) -> None:
        self._lines: dict[str, deque[Job]] = {}  # none is empty
        self._served: dict[str, int] = {}
        """When accounts were last served, as numbers."""
        self._turns = count(1)
        self._woken = False
        self._condition = threading.Condition()

    def put(self, job: Job) -> None:
        with self._condition:
            self._lines.setdefault(job.account, deque()).append(job)
            self._condition.notify()

    def wake(self) -> None:
        """End the waiting `next`, or the next one that would wait. Several calls in between end only one."""
        with self._condition:
            self._woken = True
            self._condition.notify()

    def next(self, seconds: float) -> Job | None:
        """Return the next job; None if there is none within `seconds`, or after `wake`."""
        with self._condition:
            self._condition.wait_for(lambda: self._lines or self._woken, seconds)
            if not self._lines:
                self._woken = False
                return None
            account = min(self._lines, key=lambda each: self._served.get(each, 0))
            self._served[account] = next(self._turns)
            job = self._lines[account].popleft()
            if not self._lines[account]:
                del self._lines[account]
            if len(self._served) > _MOST_REMEMBERED:
                self._served.clear()
            return job

    def waiting(self) -> bool:
        """Return whether `next` would return a job at once."""
        return bool(self._lines)

    def refuse(self, refusal: Callable[[], Refusal]) -> None:
        """Answer all waiting jobs with this refusal."""
        with self._condition:
            waiting = [job for line in self._lines.values() for job in line]
            self._lines.clear()
        for job in waiting:
            job.result.set_exception(refusal())
