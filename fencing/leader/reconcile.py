"""What the leader must do next, as a pure function of the state (the core of the reconcile loop).

It is level-triggered: called repeatedly with the newest state, it returns the steps that are due. A lost step is due
again; a completed step no longer is.

A deleted connector's records are removed from the config topic, which would otherwise keep some for every name ever
used. A tombstone is safe once the round of the deletion is done: every transactional id of the name is fenced, and no
reader lets an attempt run whose connector has no configuration. An attempt that slept until compaction had dropped the
tombstone is fenced, too, and ends itself (`fencing.task.config_view`). The task count record is kept if the name ever
had offsets outside of the worker's topic: a connector created with that name learns from it where they are.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from ringfence.fencing.ids import NOBODY, ConnectorName, TaskId, WorkerId
from ringfence.fencing.leader.fencing_round import Round, plan
from ringfence.fencing.leader.next_placement import (
    ClusterView,
    LiveWorker,
    Place,
    RestartPolicy,
    are_settled,
    in_a_row,
    look_at,
    next_record,
    next_restart_ms,
    place_of,
    reassign,
    status_of,
)
from ringfence.fencing.modes import Mode
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import (
    ConfigRecord,
    PlacementRecord,
    TaskRecord,
    TombstonePrefix,
    TombstoneRecord,
)
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState, task_ids
from ringfence.fencing.topics.status import NO_SLOT, State, StatusState, TaskStatus

AT_ONCE: Final = 100
"""The maximum of names in one transaction, and of task numbers: after an upgrade, thousands may be due."""
_MAX_RECORDS: Final = 500


def find_forgettable(state: ClusterState) -> list[ConnectorName]:
    """Return deleted connectors with records that nobody needs, at most AT_ONCE."""
    due = (connector.name for connector in state.connectors.values() if tombstones(connector))
    return list(islice(due, AT_ONCE))


def tombstones(connector: ConnectorState) -> list[ConfigRecord]:
    """Return the records that remove what is left of a deleted connector; none while its round is pending.

    The commit record is removed before the count record, so a reader that stops between them sees no pending round.
    Of many tasks, the last ones come first, in transactions of their own: the next plan finds fewer.
    """
    if connector.config is not None or connector.unreadable is not None or connector.round_pending:
        return []
    records: list[ConfigRecord] = []
    first = max(0, connector.task_keys - AT_ONCE)
    for number in reversed(range(first, connector.task_keys)):
        task = TaskId(connector.name, number)
        records += [TaskRecord(task, None), PlacementRecord(task, None)]
    if first:
        return records
    if connector.commit is not None or records:
        records.append(TombstoneRecord(connector.name, TombstonePrefix.COMMIT))
    if connector.count is not None and connector.count.elsewhere is False:
        records += [
            TombstoneRecord(connector.name, TombstonePrefix.FENCING),
            TombstoneRecord(connector.name, TombstonePrefix.COUNT),
        ]
    return records


def forget(state: ClusterState) -> list[ConfigRecord]:
    """Plan the leader's next write."""
    records: list[ConfigRecord] = []
    for name in find_forgettable(state):
        records += tombstones(state.connector(name))
        if len(records) >= _MAX_RECORDS:
            break
    return records


UNFENCED_GRACE_S: Final = 300.0
"""How long to wait for a lost attempt without transactions if the setting is missing: Kafka Connect's default."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps that are due. Each part may be empty."""

    stale_connectors: Sequence[ConnectorName]
    """Connectors whose tasks are older than their configuration: ask the plugin, write tasks and commit."""
    rounds: Sequence[Round]
    placements: Sequence[PlacementRecord]
    unassigned_tasks: Sequence[TaskId]
    """Tasks for which no worker has a slot."""
    restarting: Sequence[TaskId] = ()
    """The placements that are automatic restarts of failed tasks."""
    forgettable: Sequence[ConnectorName] = ()
    """Deleted connectors whose remaining records must be removed from the config topic."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The connectors that a decision leaves out, because nothing is due for them (`fencing.leader.work_list`).

    staying: their tasks that stay where they are if there is room, by their places. state, status: of all connectors.
    """

    staying: Mapping[Place, Set[TaskId]]
    state: ClusterState
    status: StatusState


def decide(
    state: ClusterState,
    status: StatusState,
    members: Sequence[LiveWorker],
    group_id: str,
    not_before: Mapping[TaskId, float],
    now: float,
    *,
    now_ms: int = 0,
    settings: Mapping[str, str] | None = None,
    held_until: Mapping[Place, float] | None = None,
    settled: Settled | None = None,
) -> Steps:
    """Return the steps that are due. not_before: monotonic times before which a lost task is not placed again.

    now_ms: wall clock, for automatic restarts; settings: the worker's; held_until: see `waiting_for`. settled: the
    connectors that are neither in `state` nor in `status`; None if these are whole.
    """
    stale_connectors = [connector.name for connector in state.existing() if needs_tasks(connector)]
    rounds = [due for connector in state.connectors.values() if (due := plan(connector, group_id)) is not None]
    live = {(member.worker, member.incarnation) for member in members}
    view = ClusterView(live, not_before, held_until or {}, now, now_ms, settings or {})
    placements, unassigned_tasks, restarting = _place_tasks(
        state, status, taking_tasks(state, members), view, settled or Settled({}, state, status)
    )
    return Steps(
        stale_connectors, rounds, placements, unassigned_tasks, tuple(restarting), tuple(find_forgettable(state))
    )


def taking_tasks(state: ClusterState, members: Sequence[LiveWorker]) -> list[LiveWorker]:
    """Return the members, with no slot for drained ones: their tasks move as far as others have room; the rest stay."""
    return [
        replace(member, slots=0, reserve=0) if state.drains.get(member.worker) == member.incarnation else member
        for member in members
    ]


def needs_tasks(connector: ConnectorState) -> bool:
    """Return whether its tasks are older than its configuration."""
    return connector.unreadable is None and connector.tasks_stale


def tasks_to_run(connector: ConnectorState) -> list[TaskId]:
    """Return the tasks that need a place."""
    if not connector.startable or connector.target is TargetState.STOPPED:
        return []
    return task_ids(connector)


def _place_tasks(
    state: ClusterState, status: StatusState, members: Sequence[LiveWorker], view: ClusterView, settled: Settled
) -> tuple[list[PlacementRecord], Sequence[TaskId], list[TaskId]]:
    """Return placement records, tasks without a slot, and tasks whose placement is an automatic restart."""
    candidates = {
        task: candidate
        for connector in state.existing()
        for task in tasks_to_run(connector)
        if (candidate := look_at(connector, task, status, view)) is not None
    }
    if are_settled(candidates.values(), members, settled.staying):
        return [], [], []
    prefer = {task: one.prefer for task, one in candidates.items() if one.prefer is not None}
    avoid = {task: one.avoid for task, one in candidates.items() if one.avoid is not None}
    assignment, unassigned_tasks = reassign(members, list(candidates), prefer, avoid, settled.staying)
    for task in assignment.keys() - candidates.keys():  # they make room, or spread the tasks more evenly
        moves = look_at(settled.state.connector(task.connector), task, settled.status, view)
        assert moves is not None
        candidates[task] = moves
    records = [
        record
        for task, member in sorted(assignment.items())
        if (record := next_record(candidates[task], member, view.now_ms)) is not None
    ]
    return records, unassigned_tasks, sorted(task for task in assignment if candidates[task].is_restart)


def statuses_with_restart(state: ClusterState, status: StatusState, settings: Mapping[str, str]) -> list[TaskStatus]:
    """Return new statuses for failed tasks whose status does not yet say when they are restarted."""
    statuses = []
    for task, task_status in status.tasks.items():
        connector = state.connectors.get(task.connector)
        if task_status.state is not State.FAILED or connector is None or connector.config is None:
            continue
        placement = connector.placements.get(task.task)
        if placement is None or status_of(status, task, placement) is None:
            continue
        due_ms = next_restart_ms(RestartPolicy.of(connector.config, settings), placement, task_status)
        changed_status = replace(task_status, restarts=in_a_row(placement, task_status.since_ms), next_ms=due_ms or 0)
        if changed_status != task_status:
            statuses.append(changed_status)
    return statuses


def statuses_without_slot(
    state: ClusterState, status: StatusState, unassigned_tasks: Sequence[TaskId], now_ms: int
) -> list[TaskStatus]:
    """Return new statuses for tasks of a new generation without a slot, if their status does not yet say so.

    Otherwise the last status of an older generation's attempt, such as a failure, would seem to be the new one's. A
    task that had a place in its generation keeps its own status, which decides when it is restarted.
    """
    statuses = []
    for task in unassigned_tasks:
        connector = state.connector(task.connector)
        placement = connector.placements.get(task.task)
        if connector.commit is None:
            continue
        generation = connector.commit.generation
        current = status.tasks.get(task)
        if placement is not None and placement.generation == generation:
            continue
        if current is None or current.generation != generation:
            nobody = WorkerId("")
            statuses.append(
                TaskStatus(task, State.UNASSIGNED, nobody, generation, 0, NOBODY, why=NO_SLOT, since_ms=now_ms)
            )
    return statuses


def patience_s(mode: Mode, delay_s: float | None) -> float:
    """Return how long to wait for the worker of a task. delay_s: see `waiting_for`."""
    unset = 0.0 if mode is Mode.ENABLED else UNFENCED_GRACE_S
    return unset if delay_s is None else delay_s


def waiting_for(
    state: ClusterState,
    members: Sequence[LiveWorker],
    before: Mapping[Place, float],
    delay_s: float | None,
    now: float,
    status: StatusState | None = None,
) -> dict[Place, float]:
    """Return how long to wait for the worker of each place with tasks to return (`scheduled.rebalance.max.delay.ms`).

    before: the last result; a worker whose place is not in it has just left. delay_s: None if the setting is missing;
    then an exactly-once task does not wait, which its transactional id makes safe, and any other waits five minutes.
    """
    live = {(member.worker, member.incarnation) for member in members}
    waits: dict[Place, float] = {}
    for connector in state.existing():
        for number, placement in connector.placements.items():
            place, mode = place_of(placement), placement.mode
            leaving = status.tasks.get(TaskId(connector.name, number)) if status and placement.after else None
            if leaving is not None:
                place, mode = (leaving.worker, leaving.incarnation), Mode.DISABLED
            patience = patience_s(mode, delay_s)
            if place not in live and patience > 0:
                waits[place] = before.get(place, now + patience)
    return waits
