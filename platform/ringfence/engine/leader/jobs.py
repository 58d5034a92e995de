"""Plans that wait for the leader's thread: in order, and one that could not be written yet before all others."""

import queue
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from ringfence.engine.leader.plans import Plan, Records
from ringfence.engine.leader.written import Written
from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.requests.refused import Refused


@dataclass(slots=True)
class Job:
    """A plan, until when it is wanted, and whom to tell."""

    plan: Plan
    deadline: Deadline
    result: "Future[Written]" = field(default_factory=Future)

    def due(self, state: ClusterState) -> Records:
        """The plan's answer; a `Refused` where it comes too late."""
        if self.deadline.expired:
            raise Refused(500, "Request timed out before it was carried out: nothing was changed. Send it again")
        return self.plan(state)


class Jobs:
    """Filled by any thread, emptied by the leader's."""

    def __init__(self) -> None:
        self._new: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._again: deque[Job] = deque()

    @property
    def waiting(self) -> bool:
        """Whether one is there that was tried already."""
        return bool(self._again)

    def put(self, job: Job) -> None:
        self._new.put(job)

    def wake(self) -> None:
        """End a `next` that waits."""
        self._new.put(None)

    def again(self, job: Job) -> None:
        """It could not be written yet; it comes before all others. Only the leader's thread may say so."""
        self._again.append(job)

    def next(self, seconds: float) -> Job | None:
        """The next one; None where none comes within `seconds`, or where somebody woke the leader."""
        if self._again:
            return self._again.popleft()
        try:
            return self._new.get(timeout=seconds)
        except queue.Empty:
            return None

    def refuse(self, refusal: Callable[[], Refused]) -> None:
        """Answer all that wait."""
        while self._again or not self._new.empty():
            job = self._again.popleft() if self._again else self._new.get_nowait()
            if job is not None:
                job.result.set_exception(refusal())
