"""Plans that wait for the leader's thread, in order."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from ringfence.engine.leader.command_plans import Plan, Records
from ringfence.engine.leader.write_result import WriteResult
from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.requests.refusal import Refusal


@dataclass(slots=True)
class Job:
    """A plan with its deadline, and the future for its result."""

    plan: Plan
    deadline: Deadline
    result: "Future[WriteResult]" = field(default_factory=Future)
    put_at: float = field(default_factory=time.perf_counter)

    def due(self, state: ClusterState) -> Records:
        """Return the plan's records. Raises `Refusal` if the deadline has passed."""
        if self.deadline.expired:
            raise Refusal(500, "Request timed out before it was carried out: nothing was changed. Send it again")
        return self.plan(state)


class Jobs:
    """A queue. Any thread puts jobs in; the leader's thread takes them."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._woken = False
        self._condition = threading.Condition()

    def put(self, job: Job) -> None:
        with self._condition:
            self._jobs.append(job)
            self._condition.notify()

    def wake(self) -> None:
        """End the waiting `next`, or the next one that would wait. Several calls in between end only one."""
        with self._condition:
            self._woken = True
            self._condition.notify()

    def next(self, seconds: float) -> Job | None:
        """Return the next job; None if there is none within `seconds`, or after `wake`."""
        with self._condition:
            self._condition.wait_for(lambda: self._jobs or self._woken, seconds)
            if self._jobs:
                return self._jobs.popleft()
            self._woken = False
            return None

    def waiting(self) -> bool:
        """Return whether `next` would return a job at once."""
        return bool(self._jobs)

    def refuse(self, refusal: Callable[[], Refusal]) -> None:
        """Answer all waiting jobs with this refusal."""
        with self._condition:
            waiting = [*self._jobs]
            self._jobs.clear()
        for job in waiting:
            job.result.set_exception(refusal())
