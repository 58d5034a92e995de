"""What the leader does next."""

from collections.abc import Mapping, Sequence

from fencing.assignment import Member
from fencing.cluster_state import ClusterState
from fencing.codec import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TargetState,
    TargetStateRecord,
    TaskCountRecord,
)
from fencing.decisions import Steps, decide
from fencing.ids import Generation, Incarnation, TaskId, WorkerId
from fencing.status import FAILED, LOST, State, StatusState, TaskStatus
from tests.fencing.test_cluster_state import C, config, fold, tasks

A = Member(WorkerId("a"), Incarnation("a1"), 4)
B = Member(WorkerId("b"), Incarnation("b1"), 4)
T0, T1 = TaskId(C, 0), TaskId(C, 1)


def running(count: int) -> list[ConfigRecord]:
    """A connector whose round is over."""
    return [config(), *tasks(count), TaskCountRecord(C, count, Generation(count + 1))]


def on(member: Member, task: int, attempt: int = 1, generation: int = 2) -> PlacementRecord:
    return PlacementRecord(TaskId(C, task), member.worker, member.incarnation, attempt, Generation(generation))


def said(
    placement: PlacementRecord, state: State = State.RUNNING, why: str = "", ended: bool = False
) -> Mapping[TaskId, TaskStatus]:
    assert placement.worker is not None
    status = TaskStatus(
        placement.task,
        state,
        placement.worker,
        placement.generation,
        placement.attempt,
        placement.incarnation,
        ended=ended,
        why=why,
    )
    return {placement.task: status}


def due(
    records: Sequence[ConfigRecord] | ClusterState,
    members: Sequence[Member] = (A, B),
    status: Mapping[TaskId, TaskStatus] | None = None,
    not_before: Mapping[TaskId, float] | None = None,
    now: float = 100.0,
) -> Steps:
    state = records if isinstance(records, ClusterState) else fold(records)
    return decide(state, StatusState(tasks=status or {}), members, "g", not_before or {}, now)


NOTHING = Steps([], [], [], [])


def test_nothing_is_due_when_all_is_well() -> None:
    placement = on(A, 0)
    assert due([*running(1), placement], status=said(placement)) == NOTHING
    assert due([*running(1), placement]) == NOTHING  # it has only not said anything yet
    assert due([]) == NOTHING


def test_a_new_generation_is_placed_at_once_and_its_round_is_due() -> None:
    steps = due([config(), *tasks(2)])
    assert [round_.generation for round_ in steps.rounds] == [3]
    assert steps.placements == [on(A, 0, 1, 3), on(B, 1, 1, 3)]


def test_a_task_whose_worker_is_gone_is_placed_again_as_the_next_attempt() -> None:
    assert due([*running(1), on(B, 0, 3)], members=[A]).placements == [on(A, 0, 4)]


def test_a_task_whose_worker_was_restarted_is_placed_again() -> None:
    restarted = Member(A.worker, Incarnation("a2"), 4)
    assert due([*running(1), on(A, 0)], members=[restarted]).placements == [on(restarted, 0, 2)]


def test_a_lost_attempt_is_placed_again_but_not_before_its_time() -> None:
    placement = on(A, 0)
    lost = said(placement, State.UNASSIGNED, LOST, ended=True)
    records = [*running(1), placement]
    assert due(records, [A], lost, {T0: 100.5}) == NOTHING
    assert due(records, [A], lost, {T0: 100.0}).placements == [on(A, 0, 2)]
    assert due(records, [A], lost).placements == [on(A, 0, 2)]


def test_a_lost_attempt_that_was_placed_again_is_left_alone() -> None:
    lost = said(on(A, 0), State.UNASSIGNED, LOST, ended=True)
    assert due([*running(1), on(A, 0), on(A, 0, 2)], [A], lost) == NOTHING


def test_a_failed_task_stays_until_somebody_restarts_it() -> None:
    placement = on(A, 0)
    failed = said(placement, State.FAILED, FAILED, ended=True)
    assert due([*running(1), placement], status=failed) == NOTHING
    assert due([*running(1), placement], members=[B], status=failed) == NOTHING


def test_a_failed_task_gets_no_slot_that_others_need() -> None:
    one_slot = Member(WorkerId("a"), Incarnation("a1"), 1)
    failed = said(on(one_slot, 0, 1, 3), State.FAILED, FAILED, ended=True)
    steps = due([*running(2), on(one_slot, 0, 1, 3)], [one_slot], failed)
    assert steps.placements == [on(one_slot, 1, 1, 3)]
    assert steps.homeless == []


def test_a_paused_connector_keeps_its_placements_and_a_stopped_one_has_none() -> None:
    placed = [*running(1), on(A, 0)]
    assert due([*placed, TargetStateRecord(C, TargetState.PAUSED)]) == NOTHING
    assert due([*placed, TargetStateRecord(C, TargetState.PAUSED)], [B]).placements == [on(B, 0, 2)]
    assert due([*placed, TargetStateRecord(C, TargetState.STOPPED)], [B]).placements == []
    stopped = due([*placed, TargetStateRecord(C, TargetState.STOPPED), CommitRecord(C, 0)])
    assert (stopped.placements, stopped.tasks_wanted) == ([], [])
    assert [round_.ids for round_ in stopped.rounds] == [["g-c-0"]]


def test_tasks_older_than_the_configuration_are_asked_for_and_not_placed() -> None:
    steps = due([*running(1), config(new="1")])
    assert steps.tasks_wanted == [C]
    assert steps.placements == []
    assert due([config()]).tasks_wanted == [C]


def test_a_deleted_connector_has_a_round_and_nothing_else() -> None:
    steps = due([*running(2), CommitRecord(C, 0), ConnectorRecord(C, None)])
    assert (steps.tasks_wanted, steps.placements) == ([], [])
    assert [round_.ids for round_ in steps.rounds] == [["g-c-0", "g-c-1"]]


def test_a_task_moves_only_where_the_spread_asks_for_it() -> None:
    records = [*running(4), *(on(A, n, 1, 5) for n in range(4))]
    moved = due(records).placements
    assert [(record.worker, record.attempt) for record in moved] == [(B.worker, 2), (B.worker, 2)]
    assert due([*records, *moved]) == NOTHING


def test_tasks_without_a_slot_are_named() -> None:
    small = Member(WorkerId("a"), Incarnation("a1"), 1)
    steps = due(running(2), [small])
    assert [record.task for record in steps.placements] == [T0]
    assert steps.homeless == [T1]
    assert due(running(2), []).homeless == [T0, T1]
