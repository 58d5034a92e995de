"""Plans that wait for the leader's thread: those of an account in order, and accounts in turn."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from ringfence import telemetry
from ringfence.engine.leader.commands.command import Plan, Records, WriteResult
from ringfence.fencing import request_context, stages
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, NotLeader, Retriable
from ringfence.fencing.leader.term import Term
from ringfence.fencing.request_context import RequestContext
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.requests.request import Refusal

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


TRY_SECONDS: Final = 8.0
_TURN_SECONDS: Final = 1.0
_DOUBT_SECONDS: Final = 20.0
NOT_LEADING: Final = "Cannot complete request because this worker does not lead (any more). Send the request again"
_IN_DOUBT: Final = (
    "Request timed out. The config topic was being written when this worker lost it ({error}). Whether the request was "
    "carried out is unknown: check before you send it again."
)


def carry_out_all(first: Job, jobs: Jobs, term: Term, announce: Callable[[ClusterState, ClusterState], None]) -> None:
    """Carry out this job, and for a moment those that wait behind it: a pass of the loop may take seconds."""
    until = time.monotonic() + _TURN_SECONDS
    job: Job | None = first
    while job is not None:
        carry_out(job, term, announce)
        job = jobs.next(0) if time.monotonic() < until else None


def carry_out(job: Job, term: Term, announce: Callable[[ClusterState, ClusterState], None]) -> None:
    """Write the records of the job's plan, and answer the job. Raises errors that end or delay the term."""
    before, began = term.state, time.perf_counter()
    # An attempt must not take long: a group that rebalances waits for this member, and the write for the group.
    limit, doubt = (Deadline.after(job.deadline.slice(seconds)) for seconds in (TRY_SECONDS, _DOUBT_SECONDS))
    try:
        with (
            request_context.working_for(job.request),
            telemetry.span_of(job.request, "leader write"),
            stages.collect() as parts,
        ):
            state, offset = term.write(job.due, limit, doubt)
    except NotLeader as error:
        answer = Refusal(409, f"{NOT_LEADING} ({error})", passing=True)
        job.result.set_exception(Refusal(500, _IN_DOUBT.format(error=error)) if term.in_doubt else answer)
        raise
    except Refusal as refusal:
        job.result.set_exception(refusal)
        return
    except FencingError as error:
        late = "Request timed out: nothing was changed. " if isinstance(error, Retriable) else ""
        message = f"{late}The config topic could not be read or written: {error}"
        job.result.set_exception(Refusal(500, _IN_DOUBT.format(error=error) if term.in_doubt else message))
        raise
    if offset >= 0:
        announce(before, state)
    stages_of_write = {**parts, "transaction": (time.perf_counter() - began) * 1000 - sum(parts.values())}
    job.result.set_result(WriteResult(state, offset, {"leader-busy": (began - job.put_at) * 1000, **stages_of_write}))
