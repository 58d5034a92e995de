"""The next placement of one task: `look_at` says what is due, `next_record` what is written once a worker is assigned.

In between, `fencing.leader.assignment` gives each task that needs a place a worker. A placement is an attempt's right
to run: its record names the worker, and the next attempt of the same generation replaces it.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ringfence.fencing.ids import Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.assignment import Member
from ringfence.fencing.leader.restarts import RestartPolicy, in_a_row, next_restart_ms
from ringfence.fencing.modes import Mode
from ringfence.fencing.topics.config_records import PlacementRecord
from ringfence.fencing.topics.connector_state import ConnectorState, Placement, TargetState
from ringfence.fencing.topics.status import FAILED, MISCONFIGURED, State, StatusState, TaskStatus

Place = tuple[WorkerId, Incarnation]

REBALANCE_DELAY: Final = "scheduled.rebalance.max.delay.ms"


class Next(Enum):
    """What is due for a task."""

    FIRST = "it has no place in this generation yet"
    STAY = "it runs where it is"
    MOVE = "its worker is gone: the next attempt may run anywhere"
    FOLLOW = "its worker is back as another incarnation: the next attempt runs there"
    RETRY = "its attempt has ended: the next one, on another worker if possible"
    RESERVED = "its next place is reserved: nothing fences the attempt before, so that one must end first"
    START = "its place was reserved, and the attempt before has ended"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What decides about a placement, besides the task's own placement and status.

    live: the places of live workers. not_before: monotonic times before which a lost task is not placed again.
    held_until: until when a place whose worker left is waited for. now: monotonic; now_ms: the wall clock, for
    automatic restarts. settings: the worker's.
    """

    live: Set[Place]
    not_before: Mapping[TaskId, float]
    held_until: Mapping[Place, float]
    now: float
    now_ms: int
    settings: Mapping[str, str]

    def places_of(self, worker: WorkerId) -> list[Place]:
        """Where a worker lives now; empty while it is away."""
        return sorted(place for place in self.live if place[0] == worker)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that needs a place, or keeps the one it has.

    placement: its place in this generation; reported: its status, if that is about this very attempt. prefer: where it
    stays if there is room; avoid: where it goes only if there is room nowhere else.
    """

    task: TaskId
    generation: Generation
    next: Next
    placement: Placement | None = None
    reported: TaskStatus | None = None
    prefer: Place | None = None
    avoid: Place | None = None

    @property
    def is_restart(self) -> bool:
        """An automatic restart of a failed task."""
        return self.next is Next.RETRY and self.reported is not None and self.reported.state is State.FAILED


def place_of(placement: Placement) -> Place:
    return placement.worker, placement.incarnation


def status_of(status: StatusState, task: TaskId, placement: Placement | None) -> TaskStatus | None:
    """The task's status, if it is about this very attempt."""
    reported = status.tasks.get(task)
    if reported is None or placement is None:
        return None
    same = (reported.generation, reported.attempt) == (placement.generation, placement.attempt)
    return reported if same else None


def look_at(connector: ConnectorState, task: TaskId, status: StatusState, view: ClusterView) -> Candidate | None:
    """What is due for a task of the connector's newest generation; None if it is neither moved nor counted for now."""
    assert connector.commit is not None
    generation = connector.commit.generation
    placement = connector.placements.get(task.task)
    if placement is None or placement.generation != generation:
        return Candidate(task, generation, Next.FIRST)
    reported = status_of(status, task, placement)
    due = _due(connector, placement, reported, status.tasks.get(task), task, view)
    if due is None:
        return None
    here = place_of(placement)
    prefer: Place | None = None
    if due in (Next.STAY, Next.RESERVED, Next.START):
        prefer = here
    elif due is Next.FOLLOW:
        prefer = view.places_of(placement.worker)[0]
    return Candidate(task, generation, due, placement, reported, prefer, here if due is Next.RETRY else None)


def _due(
    connector: ConnectorState,
    placement: Placement,
    reported: TaskStatus | None,
    newest: TaskStatus | None,
    task: TaskId,
    view: ClusterView,
) -> Next | None:
    if placement.after:
        return Next.START if _earlier_attempt_ended(placement, newest, view) else Next.RESERVED
    ended = reported if reported is not None and reported.ended else None
    if ended is not None and ended.why in (FAILED, MISCONFIGURED):
        return Next.RETRY if _restart_due(connector, placement, ended, view) else None
    here = place_of(placement)
    held = here not in view.live and view.now < view.held_until.get(here, 0.0)
    # By default only an attempt that may still run is waited for; where somebody set a delay, its worker is.
    if held and (ended is None or REBALANCE_DELAY in view.settings):
        return Next.FOLLOW if view.places_of(placement.worker) else None
    if ended is not None:
        return Next.RETRY if view.now >= view.not_before.get(task, 0.0) else None
    return Next.STAY if here in view.live else Next.MOVE


def _restart_due(connector: ConnectorState, placement: Placement, failed: TaskStatus, view: ClusterView) -> bool:
    if connector.target is not TargetState.RUNNING:
        return False
    due_ms = next_restart_ms(RestartPolicy.of(connector.config or {}, view.settings), placement, failed)
    return due_ms is not None and view.now_ms >= due_ms


def _earlier_attempt_ended(placement: Placement, newest: TaskStatus | None, view: ClusterView) -> bool:
    """Whether the attempt that `placement` comes after has ended, as far as anybody can tell.

    Its status says so, or else its worker left and was waited for. An attempt that is moved has reported before, and
    its worker reports an end that it cannot report itself.
    """
    if newest is None or (newest.generation, newest.attempt) != (placement.generation, placement.after):
        return True
    place = (newest.worker, newest.incarnation)
    return newest.ended or (place not in view.live and view.now >= view.held_until.get(place, 0.0))


def next_record(candidate: Candidate, member: Member, now_ms: int) -> PlacementRecord | None:
    """The record that places the task on the worker that it was assigned to; None if nothing changes."""
    old = candidate.placement
    attempt, after = 1, 0
    if old is not None:
        here = place_of(old) == (member.worker, member.incarnation)
        attempt = old.attempt + 1
        match candidate.next:
            case Next.STAY | Next.RESERVED if here:
                return None
            case Next.START if here:
                attempt = old.attempt
            case Next.RESERVED:
                after = old.after
            case Next.STAY if old.mode is not Mode.ENABLED:
                if not _runs(candidate.reported):
                    return None  # it is just starting: moved once it can report that it has ended
                after = old.attempt
    return PlacementRecord(
        candidate.task,
        member.worker,
        member.incarnation,
        attempt,
        candidate.generation,
        _restarts(candidate, now_ms),
        placed_ms=now_ms,
        mode=member.mode,
        after=after,
    )


def _runs(reported: TaskStatus | None) -> bool:
    return reported is not None and not reported.ended and reported.state in (State.RUNNING, State.PAUSED)


def _restarts(candidate: Candidate, now_ms: int) -> int:
    """The count of restarts for the next attempt: kept if only its worker was lost, one more for a restart."""
    if candidate.placement is None:
        return 0
    if candidate.is_restart and candidate.reported is not None:
        return in_a_row(candidate.placement, candidate.reported.since_ms) + 1
    return in_a_row(candidate.placement, now_ms)
