"""Worker modes: how long a lost task is waited for, how one is moved, and what a mixed cluster says about itself."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ringfence.fencing.ids import Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.next_placement import REBALANCE_DELAY, LiveWorker, Place
from ringfence.fencing.leader.reconcile import UNFENCED_GRACE_S, Steps, decide, waiting_for
from ringfence.fencing.modes import Mode, lagging
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import PlacementRecord, TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.status import LOST, PLACED, SUPERSEDED, State, StatusState, TaskStatus
from tests.support.cluster_states import C, fold
from tests.support.decisions import on, running, said

A = LiveWorker(WorkerId("a"), Incarnation("a1"), 4, Mode.DISABLED)
B = LiveWorker(WorkerId("b"), Incarnation("b1"), 4, Mode.DISABLED)
T0 = TaskId(C, 0)


def loose(member: LiveWorker, task: int = 0, attempt: int = 1, after: int = 0, generation: int = 3) -> PlacementRecord:
    return replace(on(member, task, attempt, generation), mode=member.mode, after=after)


def alone(member: LiveWorker, attempt: int = 1) -> PlacementRecord:
    """The connector's only task."""
    return loose(member, 0, attempt, generation=2)


def cluster(*placed: PlacementRecord, target: TargetState = TargetState.RUNNING) -> ClusterState:
    """A connector whose round is over, with these placements in its generation."""
    return fold([*running(len(placed)), TargetStateRecord(C, target), *placed])


def due(
    *placed: PlacementRecord,
    members: Sequence[LiveWorker] = (A, B),
    status: Mapping[TaskId, TaskStatus] | None = None,
    held_until: Mapping[Place, float] | None = None,
    delay: str | None = None,
    now: float = 100.0,
) -> Sequence[PlacementRecord]:
    state = cluster(*placed)
    settings = {} if delay is None else {REBALANCE_DELAY: delay}
    steps: Steps = decide(
        state, StatusState(tasks=status or {}), members, "g", {}, now, settings=settings, held_until=held_until
    )
    return [replace(record, placed_ms=0) for record in steps.placements]


def where(member: LiveWorker) -> Place:
    return member.worker, member.incarnation


def test_a_lost_task_without_transactions_is_waited_for_five_minutes_and_one_with_them_not_at_all() -> None:
    for mode, patience in ((Mode.ENABLED, 0.0), (Mode.PREPARING, UNFENCED_GRACE_S), (Mode.DISABLED, UNFENCED_GRACE_S)):
        gone = replace(A, mode=mode)
        state = cluster(loose(gone))
        assert waiting_for(state, [B], {}, None, 10.0) == ({where(A): 10.0 + patience} if patience else {})


def test_a_delay_that_is_set_holds_in_every_mode() -> None:
    for mode in Mode:
        state = cluster(loose(replace(A, mode=mode)))
        assert waiting_for(state, [B], {}, 7.0, 10.0) == {where(A): 17.0}
        assert waiting_for(state, [B], {}, 0.0, 10.0) == {}


def test_within_the_grace_a_lost_task_rests_and_then_it_is_placed_elsewhere() -> None:
    placed, held = alone(A), {where(A): 400.0}
    assert due(placed, members=[B], status=said(placed), held_until=held, now=399.0) == []
    assert due(placed, members=[B], status=said(placed), held_until=held, now=400.0) == [alone(B, 2)]


def test_within_the_grace_it_returns_to_its_worker_when_that_is_back() -> None:
    placed, back = alone(A), replace(A, incarnation=Incarnation("a2"))
    assert due(placed, members=[back, B], status=said(placed), held_until={where(A): 400.0}) == [alone(back, 2)]


def test_one_that_said_that_it_has_ended_is_not_waited_for_unless_a_delay_is_set() -> None:
    """A rolling restart: a worker that stops in order leaves nothing that could still write."""
    placed, held = alone(A), {where(A): 400.0}
    ended = said(placed, State.UNASSIGNED, SUPERSEDED, ended=True)
    assert due(placed, members=[B], status=ended, held_until=held) == [alone(B, 2)]
    assert due(placed, members=[B], status=ended, held_until=held, delay="300000") == []


def both(first: PlacementRecord, second: PlacementRecord) -> dict[TaskId, TaskStatus]:
    return {**said(first), **said(second)}


def test_a_move_reserves_the_place_until_the_attempt_before_has_ended() -> None:
    here, there = loose(A, 0), loose(A, 1)
    moved = loose(B, 1, attempt=2, after=1)
    assert due(here, there, status=both(here, there)) == [moved]
    # Reserved is counted: nothing else moves, and nothing starts.
    assert due(here, moved, status=both(here, there)) == []
    state = cluster(here, moved)
    assert not state.connector(C).may_run(1, state.connector(C).placements[1])
    ended = {**said(here), **said(there, State.UNASSIGNED, SUPERSEDED, ended=True)}
    assert due(here, moved, status=ended) == [replace(moved, after=0)]
    lost = {**said(here), **said(there, State.UNASSIGNED, LOST, ended=True)}
    assert due(here, moved, status=lost) == [replace(moved, after=0)]


def test_with_transactions_a_move_waits_for_nobody() -> None:
    exact_a, exact_b = replace(A, mode=Mode.ENABLED), replace(B, mode=Mode.ENABLED)
    here, there = loose(exact_a, 0), loose(exact_a, 1)
    assert due(here, there, members=[exact_a, exact_b], status=both(here, there)) == [loose(exact_b, 1, attempt=2)]


def test_to_an_enabled_worker_it_waits_too_and_runs_by_that_workers_mode() -> None:
    exact_b = replace(B, mode=Mode.ENABLED)
    here, there = loose(A, 0), loose(A, 1)
    assert due(here, there, members=[A, exact_b], status=both(here, there)) == [loose(exact_b, 1, attempt=2, after=1)]


def test_one_that_is_just_starting_is_not_moved() -> None:
    """It could not tell that it has ended."""
    here, there = loose(A, 0), loose(A, 1)
    silent = {**said(here), **said(there, State.UNASSIGNED, PLACED)}
    assert due(here, there, status=silent) == []


def test_a_worker_that_leaves_in_the_middle_of_a_move_is_waited_for() -> None:
    here, there, moved = loose(B, 0), loose(A, 1), loose(B, 1, attempt=2, after=1)
    state = cluster(here, moved)
    status = both(here, there)
    held = waiting_for(state, [B], {}, None, 100.0, StatusState(tasks=status))
    assert held == {where(A): 100.0 + UNFENCED_GRACE_S}
    assert due(here, moved, members=[B], status=status, held_until=held) == []
    assert due(here, moved, members=[B], status=status, held_until=held, now=400.0) == [replace(moved, after=0)]


def test_a_reserved_place_that_goes_away_is_replaced_and_still_waits() -> None:
    other = LiveWorker(WorkerId("c"), Incarnation("c1"), 4, Mode.DISABLED)
    here, there, moved = loose(A, 0), loose(A, 1), loose(B, 1, attempt=2, after=1)
    assert due(here, moved, members=[A, other], status=both(here, there)) == [loose(other, 1, attempt=3, after=1)]


def test_a_paused_connector_moves_the_same_way() -> None:
    here, there = loose(A, 0), loose(A, 1)
    state = cluster(here, there, target=TargetState.PAUSED)
    status = {**said(here, State.PAUSED), **said(there, State.PAUSED)}
    steps = decide(state, StatusState(tasks=status), [A, B], "g", {}, 100.0)
    assert [record.after for record in steps.placements] == [1]


def test_who_lags_behind_is_named() -> None:
    assert lagging([("a", "enabled"), ("b", "enabled")]) == ""
    assert lagging([("a", "disabled"), ("b", "disabled")]) == ""
    mixed = lagging([("a", "enabled"), ("b", "disabled"), ("c", "preparing")])
    assert "b (disabled), c (preparing)" in mixed
    assert "at least once" in mixed
    halfway = lagging([("a", "preparing"), ("b", "disabled")])
    assert "Not yet preparing: b" in halfway
