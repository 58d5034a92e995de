"""What the leader does next."""

from collections.abc import Mapping
from dataclasses import replace

from ringfence.fencing.ids import Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.leader.reconcile import statuses_with_restart, statuses_without_slot, waiting_for
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConnectorRecord,
    PlacementRecord,
    TargetStateRecord,
)
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.status import FAILED, LOST, MISCONFIGURED, NO_SLOT, State, StatusState, TaskStatus, apply
from tests.support.cluster_states import C, config, fold, tasks
from tests.support.decisions import NOTHING, T0, T1, A, B, due, on, running, said


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
    restarted = LiveWorker(A.worker, Incarnation("a2"), 4)
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
    one_slot = LiveWorker(WorkerId("a"), Incarnation("a1"), 1)
    failed = said(on(one_slot, 0, 1, 3), State.FAILED, FAILED, ended=True)
    steps = due([*running(2), on(one_slot, 0, 1, 3)], [one_slot], failed)
    assert steps.placements == [on(one_slot, 1, 1, 3)]
    assert steps.unassigned_tasks == []


def test_a_paused_connector_keeps_its_placements_and_a_stopped_one_has_none() -> None:
    placed = [*running(1), on(A, 0)]
    assert due([*placed, TargetStateRecord(C, TargetState.PAUSED)]) == NOTHING
    assert due([*placed, TargetStateRecord(C, TargetState.PAUSED)], [B]).placements == [on(B, 0, 2)]
    assert due([*placed, TargetStateRecord(C, TargetState.STOPPED)], [B]).placements == []
    stopped = due([*placed, TargetStateRecord(C, TargetState.STOPPED), CommitRecord(C, 0)])
    assert (stopped.placements, stopped.stale_connectors) == ([], [])
    assert [round_.ids for round_ in stopped.rounds] == [["g-c-0"]]


def test_tasks_older_than_the_configuration_are_asked_for_and_not_placed() -> None:
    steps = due([*running(1), config(new="1")])
    assert steps.stale_connectors == [C]
    assert steps.placements == []
    assert due([config()]).stale_connectors == [C]


def test_a_deleted_connector_has_a_round_and_nothing_else() -> None:
    steps = due([*running(2), CommitRecord(C, 0), ConnectorRecord(C, None)])
    assert (steps.stale_connectors, steps.placements) == ([], [])
    assert [round_.ids for round_ in steps.rounds] == [["g-c-0", "g-c-1"]]


def test_a_task_moves_only_where_the_spread_asks_for_it() -> None:
    records = [*running(4), *(on(A, n, 1, 5) for n in range(4))]
    moved = due(records).placements
    assert [(record.worker, record.attempt) for record in moved] == [(B.worker, 2), (B.worker, 2)]
    assert due([*records, *moved]) == NOTHING


def test_tasks_without_a_slot_are_named() -> None:
    small = LiveWorker(WorkerId("a"), Incarnation("a1"), 1)
    steps = due(running(2), [small])
    assert [record.task for record in steps.placements] == [T0]
    assert steps.unassigned_tasks == [T1]
    assert due(running(2), []).unassigned_tasks == [T0, T1]


def test_a_repaired_task_without_a_slot_does_not_keep_its_old_error() -> None:
    """Of a new generation it is told, once; of one that had a place in its generation the report stays."""
    state = fold(running(2))
    assert state.connector(C).commit is not None
    generation = state.connector(C).commit.generation  # type: ignore[union-attr]
    old = said(on(A, 0, attempt=7, generation=generation - 1), State.FAILED, FAILED, ended=True)
    status = StatusState(tasks={task: replace(one, trace="Boom", since_ms=999_999) for task, one in old.items()})
    told = statuses_without_slot(state, status, [T0, T1], 5)
    assert [(one.task, one.state, one.why, one.trace, one.attempt) for one in told] == [
        (T0, State.UNASSIGNED, NO_SLOT, None, 0),
        (T1, State.UNASSIGNED, NO_SLOT, None, 0),
    ]
    for one in told:
        status = apply(status, one)
    assert status.tasks[T0].why == NO_SLOT  # although the failed one's clock was ahead
    assert statuses_without_slot(state, status, [T0, T1], 6) == []
    placed = fold([*running(2), on(A, 0, 1, generation)])
    failed = said(on(A, 0, 1, generation), State.FAILED, FAILED, ended=True)
    assert statuses_without_slot(placed, StatusState(tasks=failed), [T0], 5) == []
    first = said(on(A, 0, 1, generation))[T0]
    assert apply(status, first).tasks[T0].state is State.RUNNING


def failed_on(placement: PlacementRecord, at_ms: int, why: str = FAILED) -> Mapping[TaskId, TaskStatus]:
    found = said(placement, State.FAILED, why, ended=True)
    return {task: replace(status, since_ms=at_ms) for task, status in found.items()}


def test_a_failed_task_is_restarted_after_its_pause_elsewhere_if_possible() -> None:
    placement = replace(on(A, 0), placed_ms=1)
    failed = failed_on(placement, 5_000)
    records = [*running(1), placement]
    assert due(records, status=failed, now_ms=14_999) == NOTHING
    steps = due(records, status=failed, now_ms=15_000)
    assert steps.placements == [replace(on(B, 0, 2), restarts=1)]
    assert steps.restarting == (T0,)
    assert due(records, [A], failed, now_ms=15_000).placements == [replace(on(A, 0, 2), restarts=1)]


def test_after_the_last_automatic_restart_and_for_a_wrong_configuration_it_stays_failed() -> None:
    spent = replace(on(A, 0), restarts=2, placed_ms=1)
    assert due([*running(1), spent], status=failed_on(spent, 5_000), now_ms=10**9) == NOTHING
    first = replace(on(A, 0), placed_ms=1)
    assert due([*running(1), first], status=failed_on(first, 5_000, MISCONFIGURED), now_ms=10**9) == NOTHING
    off = config(**{"auto.restart.enabled": "false"})
    assert due([off, *running(1)[1:], first], status=failed_on(first, 5_000), now_ms=10**9) == NOTHING


def test_a_failed_task_of_a_paused_connector_is_not_restarted() -> None:
    first = replace(on(A, 0), placed_ms=1)
    paused = [*running(1), first, TargetStateRecord(C, TargetState.PAUSED)]
    assert due(paused, status=failed_on(first, 5_000), now_ms=10**9) == NOTHING


def test_a_lost_worker_does_not_begin_the_count_anew_but_ten_good_minutes_do() -> None:
    placement = replace(on(A, 0), restarts=2, placed_ms=1_000)
    assert due([*running(1), placement], [B], now_ms=2_000).placements == [replace(on(B, 0, 2), restarts=2)]
    assert due([*running(1), placement], [B], now_ms=601_000).placements == [on(B, 0, 2)]
    late = failed_on(placement, 601_000)
    assert due([*running(1), placement], [A], late, now_ms=611_000).placements == [replace(on(A, 0, 2), restarts=1)]


def test_a_failed_task_tells_when_it_is_restarted_once() -> None:
    placement = replace(on(A, 0), restarts=1, placed_ms=1_000)
    state = fold([*running(1), placement])
    failed = StatusState(tasks=failed_on(placement, 5_000))
    (shown,) = statuses_with_restart(state, failed, {})
    assert (shown.restarts, shown.next_ms, shown.state) == (1, 25_000, State.FAILED)
    assert statuses_with_restart(state, StatusState(tasks={T0: shown}), {}) == []
    gone = StatusState(tasks=failed_on(on(A, 0, 9), 5_000))
    assert statuses_with_restart(state, gone, {}) == []


def test_a_worker_that_left_is_waited_for_where_a_delay_is_set() -> None:
    state = fold([*running(1), on(A, 0)])
    assert waiting_for(state, [B], {}, 0, 100.0) == {}
    assert waiting_for(state, [A, B], {}, 30, 100.0) == {}
    away = waiting_for(state, [B], {}, 30, 100.0)
    assert away == {(A.worker, A.incarnation): 130.0}
    assert waiting_for(state, [B], away, 30, 120.0) == away
    assert due(state, [B], now=129.0, held_until=away) == NOTHING
    assert due(state, [B], now=130.0, held_until=away).placements == [on(B, 0, 2)]
    assert due(state, [B]).placements == [on(B, 0, 2)]


def test_the_wait_is_for_the_placements_worker_and_not_for_one_that_reported_before() -> None:
    state = fold([*running(1), on(A, 0, 2)])
    before = StatusState(tasks=said(on(LiveWorker(WorkerId("z"), Incarnation("z1"), 4), 0), ended=True))
    assert waiting_for(state, [B], {}, 30, 100.0, before) == {(A.worker, A.incarnation): 130.0}


def test_a_worker_that_comes_back_in_time_gets_its_tasks_back() -> None:
    state = fold([*running(2), on(A, 0, 1, 3), on(B, 1, 1, 3)])
    back = LiveWorker(A.worker, Incarnation("a2"), 4)
    away = {(A.worker, A.incarnation): 130.0}
    assert due(state, [back, B], now=101.0, held_until=away).placements == [on(back, 0, 2, 3)]
    ended = said(on(A, 0, 1, 3), State.UNASSIGNED, "superseded", ended=True)
    assert due(state, [B], ended, now=101.0, held_until=away).placements == []
