"""What the leader should do next, as a pure function of what it sees (the reconcile loop's core).

Level-triggered: called again and again with the newest state, it answers with the steps that are due. A step that was
lost is simply due again; a step that was done is no longer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fencing.assignment import Member, assign
from fencing.cluster_state import ClusterState, ConnectorState, Placement, task_ids
from fencing.codec import PlacementRecord, TargetState
from fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from fencing.rounds import Round, plan
from fencing.status import FAILED, StatusState, TaskStatus


@dataclass(frozen=True, slots=True)
class Steps:
    """What is due. Each part may be empty."""

    tasks_wanted: Sequence[ConnectorName]
    """Connectors whose task set is older than their configuration: ask the plugin, write tasks and commit."""
    rounds: Sequence[Round]
    placements: Sequence[PlacementRecord]
    homeless: Sequence[TaskId]
    """Tasks for which no worker has a slot."""


def decide(
    state: ClusterState,
    status: StatusState,
    members: Sequence[Member],
    group_id: str,
    not_before: Mapping[TaskId, float],
    now: float,
) -> Steps:
    """The steps that are due. `not_before`: monotonic times before which a lost task is not placed again."""
    tasks_wanted = [
        connector.name for connector in state.existing() if connector.unreadable is None and connector.tasks_stale
    ]
    rounds = [due for connector in state.connectors.values() if (due := plan(connector, group_id)) is not None]
    placements, homeless = _placements(state, status, members, not_before, now)
    return Steps(tasks_wanted, rounds, placements, homeless)


def status_of(status: StatusState, task: TaskId, placement: Placement | None) -> TaskStatus | None:
    """The task's status, where it speaks of this very attempt."""
    found = status.tasks.get(task)
    if found is None or placement is None:
        return None
    mine = (found.generation, found.attempt) == (placement.generation, placement.attempt)
    return found if mine else None


def _where(placement: Placement) -> tuple[WorkerId, Incarnation]:
    return placement.worker, placement.incarnation


def _wanted(connector: ConnectorState) -> list[TaskId]:
    if not connector.startable or connector.target is TargetState.STOPPED:
        return []
    return task_ids(connector)


def _placements(
    state: ClusterState,
    status: StatusState,
    members: Sequence[Member],
    not_before: Mapping[TaskId, float],
    now: float,
) -> tuple[list[PlacementRecord], list[TaskId]]:
    wanted: list[TaskId] = []
    current: dict[TaskId, tuple[WorkerId, Incarnation]] = {}
    held: dict[TaskId, Placement] = {}
    generations: dict[TaskId, Generation] = {}
    again: set[TaskId] = set()
    live = {(member.worker, member.incarnation) for member in members}
    for connector in state.existing():
        for task in _wanted(connector):
            assert connector.commit is not None
            generations[task] = connector.commit.generation
            placement = connector.placements.get(task.task)
            if placement is not None and placement.generation == connector.commit.generation:
                held[task] = placement
                reported = status_of(status, task, placement)
                if reported is not None and reported.ended and reported.why == FAILED:
                    continue  # it stays where it is until somebody restarts it
                if reported is not None and reported.ended:
                    again.add(task)
                    if now < not_before.get(task, 0.0):
                        continue
                elif (placement.worker, placement.incarnation) in live:
                    current[task] = (placement.worker, placement.incarnation)
            wanted.append(task)
    placed = assign(members, wanted, current, {task: _where(held[task]) for task in again})
    records = []
    for task, member in sorted(placed.items()):
        old = held.get(task)
        stays = old is not None and (old.worker, old.incarnation) == (member.worker, member.incarnation)
        if stays and task not in again:
            continue
        attempt = old.attempt + 1 if old is not None else 1
        records.append(PlacementRecord(task, member.worker, member.incarnation, attempt, generations[task]))
    return records, [task for task in wanted if task not in placed]
