"""Plans that wait for the leader's thread, in order."""

import queue
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
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def put(self, job: Job) -> None:
        self._jobs.put(job)

    def wake(self) -> None:
        """End a `next` that waits."""
        self._jobs.put(None)

    def next(self, seconds: float) -> Job | None:
        """The next one; None where none comes within `seconds`, or where somebody woke the leader."""
        try:
            return self._jobs.get(timeout=seconds)
        except queue.Empty:
            return None

    def refuse(self, refusal: Callable[[], Refused]) -> None:
        """Answer all that wait."""
        while not self._jobs.empty():
            job = self._jobs.get_nowait()
            if job is not None:
                job.result.set_exception(refusal())
