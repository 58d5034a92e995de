"""Writes the records of a job's plan, and reports to its sender if the write has failed."""

import time
from collections.abc import Callable
from typing import Final

from ringfence import telemetry
from ringfence.engine.leader.leader_jobs import Job, Jobs
from ringfence.engine.leader.write_result import WriteResult
from ringfence.fencing import request_context, stages
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, NotLeader, Retriable
from ringfence.fencing.leader.term import Term
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.requests.refusal import Refusal

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
