"""A drained worker: it gets no tasks, gives up what others have room for, and keeps the rest running."""

from ringfence.fencing.ids import Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import DrainRecord, connector_of, decode, encode
from tests.support.cluster_states import C, fold
from tests.support.decisions import NOTHING, A, B, due, on, running, said

DRAIN_A = DrainRecord(A.worker, A.incarnation, 5)


def test_the_record_survives_the_config_topic_and_its_tombstone_ends_it() -> None:
    for record in (DRAIN_A, DrainRecord(A.worker, None)):
        assert decode(*encode(record)) == record
    assert connector_of(encode(DRAIN_A)[0]) is None
    state = apply(ClusterState(), 0, DRAIN_A)
    assert state.drains == {A.worker: A.incarnation}
    ended = apply(state, 1, DrainRecord(A.worker, None))
    assert (ended.drains, ended.end) == ({}, 2)


def test_tasks_of_a_drained_worker_move_to_where_there_is_room() -> None:
    placed = on(A, 0)
    steps = due([*running(1), placed, DRAIN_A], status=said(placed))
    assert steps.placements == [on(B, 0, attempt=2)]


def test_a_new_task_is_not_placed_on_a_drained_worker() -> None:
    assert due([*running(2), DRAIN_A]).placements == [on(B, 0, generation=3), on(B, 1, generation=3)]
    alone = due([*running(1), DRAIN_A], members=(A,))
    assert (alone.placements, alone.unassigned_tasks) == ([], [TaskId(C, 0)])


def test_what_no_other_worker_has_room_for_goes_on_where_it_is() -> None:
    placed = on(A, 0)
    full = LiveWorker(B.worker, B.incarnation, 0)
    for members in ((A,), (A, full)):
        steps = due([*running(1), placed, DRAIN_A], members=members, status=said(placed))
        assert (steps.placements, steps.unassigned_tasks) == ([], [TaskId(C, 0)])


def test_a_worker_that_started_again_takes_tasks_again() -> None:
    again = LiveWorker(WorkerId("a"), Incarnation("a2"), 4)
    state = fold([*running(1), DRAIN_A])
    assert due(state, members=(again,)).placements == [on(again, 0)]
    placed = on(B, 0)
    assert due([*running(1), placed, DRAIN_A], status=said(placed)) == NOTHING
