"""What the leader should do next, as a pure function of what it sees (the reconcile loop's core).

Level-triggered: called again and again with the newest state, it answers with the steps that are due. A step that was
lost is simply due again; a step that was done is no longer.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from fencing.assignment import Member, assign
from fencing.cluster_state import ClusterState, ConnectorState, Placement, task_ids
from fencing.codec import PlacementRecord, TargetState
from fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from fencing.modes import Mode
from fencing.restarts import RestartPolicy, in_a_row, next_restart_ms
from fencing.rounds import Round, plan
from fencing.status import FAILED, MISCONFIGURED, State, StatusState, TaskStatus

Place = tuple[WorkerId, Incarnation]

REBALANCE_DELAY: Final = "scheduled.rebalance.max.delay.ms"
UNFENCED_GRACE_S: Final = 300.0
"""How long a lost attempt without transactions is waited for where that key is not set: Kafka Connect's default."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What is due. Each part may be empty."""

    tasks_wanted: Sequence[ConnectorName]
    """Connectors whose task set is older than their configuration: ask the plugin, write tasks and commit."""
    rounds: Sequence[Round]
    placements: Sequence[PlacementRecord]
    homeless: Sequence[TaskId]
    """Tasks for which no worker has a slot."""
    restarting: Sequence[TaskId] = ()
    """Those of the placements that are automatic restarts of failed tasks."""


def decide(
    state: ClusterState,
    status: StatusState,
    members: Sequence[Member],
    group_id: str,
    not_before: Mapping[TaskId, float],
    now: float,
    *,
    now_ms: int = 0,
    settings: Mapping[str, str] | None = None,
    held_until: Mapping[Place, float] | None = None,
) -> Steps:
    """The steps that are due. `not_before`: monotonic times before which a lost task is not placed again.

    now_ms: the wall clock, for automatic restarts; settings: the worker's; held_until: see `waiting_for`.
    """
    tasks_wanted = [
        connector.name for connector in state.existing() if connector.unreadable is None and connector.tasks_stale
    ]
    rounds = [due for connector in state.connectors.values() if (due := plan(connector, group_id)) is not None]
    live = {(member.worker, member.incarnation) for member in members}
    seen = _Seen(live, not_before, held_until or {}, now, now_ms, settings or {})
    placements, homeless, restarting = _placements(state, status, taking_tasks(state, members), seen)
    return Steps(tasks_wanted, rounds, placements, homeless, tuple(restarting))


def taking_tasks(state: ClusterState, members: Sequence[Member]) -> list[Member]:
    """The members, drained ones without a slot: their tasks move as far as others have room, and the rest stays."""
    return [
        replace(member, slots=0) if state.drained.get(member.worker) == member.incarnation else member
        for member in members
    ]


def status_of(status: StatusState, task: TaskId, placement: Placement | None) -> TaskStatus | None:
    """The task's status, where it speaks of this very attempt."""
    found = status.tasks.get(task)
    if found is None or placement is None:
        return None
    mine = (found.generation, found.attempt) == (placement.generation, placement.attempt)
    return found if mine else None


def _where(placement: Placement) -> Place:
    return placement.worker, placement.incarnation


def _wanted(connector: ConnectorState) -> list[TaskId]:
    if not connector.startable or connector.target is TargetState.STOPPED:
        return []
    return task_ids(connector)


class _Fate(Enum):
    """What becomes of a placed task."""

    STAYS = "it runs where it is"
    MOVES = "its worker is gone: the next attempt somewhere"
    AGAIN = "its attempt has ended: the next one, elsewhere if possible"
    RETURNS = "its worker is back, as another incarnation"
    RESERVED = "its next place is known; the attempt before must end first, since nothing fences it"
    RESTS = "nothing for now"


@dataclass(frozen=True, slots=True)
class _Seen:
    """All that a placement is decided by, besides the task's own placement and status."""

    live: Set[Place]
    not_before: Mapping[TaskId, float]
    held_until: Mapping[Place, float]
    now: float
    now_ms: int
    settings: Mapping[str, str]

    def fate(self, connector: ConnectorState, placement: Placement, reported: TaskStatus | None, task: TaskId) -> _Fate:
        if placement.after:
            return _Fate.RESERVED
        ended = reported if reported is not None and reported.ended else None
        if ended is not None and ended.why in (FAILED, MISCONFIGURED):
            return _Fate.AGAIN if self._restart_due(connector, placement, ended) else _Fate.RESTS
        where = _where(placement)
        waited_for = where not in self.live and self.now < self.held_until.get(where, 0.0)
        # By default only what may still run is waited for; where somebody set a delay, its worker is.
        if waited_for and (ended is None or REBALANCE_DELAY in self.settings):
            return _Fate.RETURNS if self.back(placement.worker) else _Fate.RESTS
        if ended is not None:
            return _Fate.AGAIN if self.now >= self.not_before.get(task, 0.0) else _Fate.RESTS
        return _Fate.STAYS if where in self.live else _Fate.MOVES

    def over(self, placement: Placement, reported: TaskStatus | None) -> bool:
        """Whether the attempt that `placement` comes after has ended, as far as anybody can tell.

        That is said by its status; else its worker left, and was waited for. An attempt that is moved has spoken
        before, and its worker reports an end that it cannot report itself.
        """
        if reported is None or (reported.generation, reported.attempt) != (placement.generation, placement.after):
            return True
        place = (reported.worker, reported.incarnation)
        return reported.ended or (place not in self.live and self.now >= self.held_until.get(place, 0.0))

    def back(self, worker: WorkerId) -> list[Place]:
        """Where a worker that was away lives now; empty where it is still away."""
        return [place for place in self.live if place[0] == worker]

    def _restart_due(self, connector: ConnectorState, placement: Placement, failed: TaskStatus) -> bool:
        if connector.target is not TargetState.RUNNING:
            return False
        due_ms = next_restart_ms(RestartPolicy.of(connector.config or {}, self.settings), placement, failed)
        return due_ms is not None and self.now_ms >= due_ms


def _placements(
    state: ClusterState, status: StatusState, members: Sequence[Member], seen: _Seen
) -> tuple[list[PlacementRecord], list[TaskId], list[TaskId]]:
    wanted: list[TaskId] = []
    current: dict[TaskId, Place] = {}
    held: dict[TaskId, Placement] = {}
    generations: dict[TaskId, Generation] = {}
    again: set[TaskId] = set()
    restarting: set[TaskId] = set()
    waiting: set[TaskId] = set()
    for connector in state.existing():
        for task in _wanted(connector):
            assert connector.commit is not None
            generations[task] = connector.commit.generation
            placement = connector.placements.get(task.task)
            if placement is not None and placement.generation == connector.commit.generation:
                held[task] = placement
                reported = status_of(status, task, placement)
                match seen.fate(connector, placement, reported, task):
                    case _Fate.RESTS:
                        continue
                    case _Fate.STAYS:
                        current[task] = _where(placement)
                    case _Fate.RETURNS:
                        current[task] = seen.back(placement.worker)[0]
                    case _Fate.AGAIN:
                        again.add(task)
                        if reported is not None and reported.state is State.FAILED:
                            restarting.add(task)
                    case _Fate.RESERVED:
                        current[task] = _where(placement)
                        if not seen.over(placement, status.tasks.get(task)):
                            waiting.add(task)
                    case _Fate.MOVES:
                        pass
            wanted.append(task)
    placed = assign(members, wanted, current, {task: _where(held[task]) for task in again})
    records = []
    for task, member in sorted(placed.items()):
        old = held.get(task)
        stays = old is not None and _where(old) == (member.worker, member.incarnation) and task not in again
        attempt, after = 1, 0
        if old is not None:
            attempt = old.attempt + 1
            if task in waiting:
                after = old.after
            elif old.after and stays:
                attempt, stays = old.attempt, False  # its turn has come
            elif not stays and old.mode is not Mode.ENABLED and current.get(task) == _where(old) and not old.after:
                if not _at_work(status_of(status, task, old)):
                    continue  # it is just starting: moved when it can say that it has ended
                after = old.attempt
        if stays:
            continue
        restarts = _restarts(old, status_of(status, task, old), task in restarting, seen.now_ms)
        records.append(
            PlacementRecord(
                task,
                member.worker,
                member.incarnation,
                attempt,
                generations[task],
                restarts,
                placed_ms=seen.now_ms,
                mode=member.mode,
                after=after,
            )
        )
    return records, [task for task in wanted if task not in placed], sorted(restarting & placed.keys())


def _at_work(reported: TaskStatus | None) -> bool:
    return reported is not None and not reported.ended and reported.state in (State.RUNNING, State.PAUSED)


def _restarts(old: Placement | None, reported: TaskStatus | None, restarted: bool, now_ms: int) -> int:
    """The count for the next attempt: kept where only its worker was lost, one more for a restart."""
    if old is None:
        return 0
    until = reported.since_ms if restarted and reported is not None else now_ms
    return in_a_row(old, until) + restarted


def shown_restarts(state: ClusterState, status: StatusState, settings: Mapping[str, str]) -> list[TaskStatus]:
    """The statuses of failed tasks that do not tell yet when they are restarted: as they should read."""
    changed = []
    for task, found in status.tasks.items():
        connector = state.connectors.get(task.connector)
        if found.state is not State.FAILED or connector is None or connector.config is None:
            continue
        placement = connector.placements.get(task.task)
        if placement is None or status_of(status, task, placement) is None:
            continue
        due_ms = next_restart_ms(RestartPolicy.of(connector.config, settings), placement, found)
        shown = replace(found, restarts=in_a_row(placement, found.since_ms), next_ms=due_ms or 0)
        if shown != found:
            changed.append(shown)
    return changed


def waiting_for(
    state: ClusterState,
    members: Sequence[Member],
    before: Mapping[Place, float],
    delay_s: float | None,
    now: float,
    status: StatusState | None = None,
) -> dict[Place, float]:
    """For each place with tasks whose worker left: until when it is waited for (`scheduled.rebalance.max.delay.ms`).

    `before`: the last answer. A place that is not in it has left just now. delay_s: None where the key is not set; then
    an exactly-once task does not wait, since its transactional id makes that safe, and any other waits five minutes.
    """
    live = {(member.worker, member.incarnation) for member in members}
    waited: dict[Place, float] = {}
    for connector in state.existing():
        for number, placement in connector.placements.items():
            place, mode = _where(placement), placement.mode
            leaving = status.tasks.get(TaskId(connector.name, number)) if status and placement.after else None
            if leaving is not None:
                place, mode = (leaving.worker, leaving.incarnation), Mode.DISABLED
            unset = 0.0 if mode is Mode.ENABLED else UNFENCED_GRACE_S
            patience = unset if delay_s is None else delay_s
            if place not in live and patience > 0:
                waited[place] = before.get(place, now + patience)
    return waited
