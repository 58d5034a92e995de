"""What the config topic says: generations, pending rounds, and who may run."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.fencing.ids import Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.topics.cluster_state import apply, mark_unreadable
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    UnknownKey,
    encode,
)
from ringfence.fencing.topics.connector_state import Placement, TargetState, task_ids
from tests.support.cluster_states import C, I, W, c, config, fold, histories, place, tasks, verdicts
from tests.support.examples import examples


def test_the_generation_is_the_offset_of_the_newest_commit() -> None:
    assert c().generation is None
    assert c(config()).generation is None
    assert c(config(), *tasks(2)).generation == 3
    assert c(config(), *tasks(2), *tasks(1)).generation == 5


def test_a_new_connector_waits_for_the_round_of_its_first_generation() -> None:
    state = c(config(), *tasks(2))
    assert state.startable
    assert state.round_pending
    assert not state.runnable
    assert c(config(), *tasks(2), TaskCountRecord(C, 2, Generation(3))).runnable


def test_a_count_of_another_generation_leaves_the_round_pending() -> None:
    assert c(config(), *tasks(1), TaskCountRecord(C, 1, Generation(1))).round_pending
    assert c(config(), *tasks(1), TaskCountRecord(C, 1, None)).round_pending


def test_a_commit_makes_a_new_round_due_and_forgets_the_placements() -> None:
    before = [config(), *tasks(1), TaskCountRecord(C, 1, Generation(2)), place(0, 1, 2)]
    assert c(*before).may_run(0, Placement(W, I, 1, Generation(2)))
    after = c(*before, *tasks(1))
    assert after.round_pending
    assert after.placements == {}


def test_connects_own_count_behind_ours_makes_a_round_due() -> None:
    ours = TaskCountRecord(C, 1, Generation(2))
    assert not c(config(), *tasks(1), TaskCountRecord(C, 1, None), ours).round_pending
    assert c(config(), *tasks(1), ours, TaskCountRecord(C, 1, None)).round_pending


def test_tasks_are_stale_until_all_are_newer_than_the_configuration() -> None:
    assert c(config()).tasks_stale
    assert not c(config(), *tasks(2)).tasks_stale
    assert c(config(), *tasks(2), config(new="1")).tasks_stale
    assert not c(config(), *tasks(2), config(new="1")).startable
    one_left_behind = [config(), *tasks(2), config(new="1"), TaskRecord(TaskId(C, 0), {}), CommitRecord(C, 2)]
    assert c(*one_left_behind).tasks_stale


def test_task_records_count_from_the_commit_on() -> None:
    state = c(config(), TaskRecord(TaskId(C, 0), {"n": "0"}))
    assert state.tasks == {}
    assert state.tasks_stale
    fewer = c(config(), *tasks(3), *tasks(1))
    assert sorted(fewer.tasks) == [0]
    assert task_ids(fewer) == [TaskId(C, 0)]


def test_a_commit_of_no_tasks_is_a_complete_generation() -> None:
    state = c(config(), *tasks(2), CommitRecord(C, 0), TaskCountRecord(C, 0, Generation(4)))
    assert state.runnable
    assert task_ids(state) == []


def test_only_the_newest_placement_of_the_newest_generation_may_run() -> None:
    start = [config(), *tasks(1)]
    first, second = Placement(W, I, 1, Generation(2)), Placement(W, I, 2, Generation(2))
    assert c(*start, place(0, 1, 2)).may_run(0, first)
    assert not c(*start, place(0, 1, 2), place(0, 2, 2)).may_run(0, first)
    assert c(*start, place(0, 1, 2), place(0, 2, 2)).may_run(0, second)
    assert not c(*start, place(0, 1, 2)).may_run(0, replace(first, worker=WorkerId("other")))
    assert not c(*start, place(0, 1, 2)).may_run(0, replace(first, incarnation=Incarnation("other")))
    assert not c(*start, place(0, 1, 2)).may_run(1, first)
    assert not c(*start, place(0, 1, 2), config(new="1")).may_run(0, first)
    assert not c(*start, place(0, 1, 2), PlacementRecord(TaskId(C, 0), None)).may_run(0, first)


def test_a_placement_of_an_older_generation_lets_nobody_run() -> None:
    late = c(config(), *tasks(1), *tasks(1), place(0, 1, 2))
    assert not late.may_run(0, Placement(W, I, 1, Generation(2)))


def test_a_deleted_connector_keeps_its_commit_and_count_so_that_its_tasks_are_fenced() -> None:
    deleted: list[ConfigRecord] = [
        config(),
        *tasks(2),
        TaskCountRecord(C, 2, Generation(3)),
        CommitRecord(C, 0),
        TargetStateRecord(C, None),
        ConnectorRecord(C, None),
    ]
    state = c(*deleted)
    assert state.config is None
    assert state.round_pending
    assert state.count is not None
    assert state.count.tasks == 2
    again = c(*deleted, config(), *tasks(1))
    assert again.startable
    assert again.round_pending
    assert again.count == state.count


def test_a_connector_created_anew_does_not_start_with_its_old_tasks() -> None:
    state = c(config(), *tasks(1), ConnectorRecord(C, None), config())
    assert state.tasks_stale
    assert not state.startable


def test_a_tombstone_of_the_target_state_means_running() -> None:
    assert c(config(), TargetStateRecord(C, TargetState.STOPPED)).target is TargetState.STOPPED
    assert c(config(), TargetStateRecord(C, TargetState.STOPPED), TargetStateRecord(C, None)).target is (
        TargetState.RUNNING
    )


def test_a_tombstone_of_a_task_before_the_commit_takes_it_back() -> None:
    taken_back = [TaskRecord(TaskId(C, 0), {}), TaskRecord(TaskId(C, 0), None)]
    assert c(config(), *taken_back, CommitRecord(C, 1)).tasks_stale


def test_an_unreadable_connector_stops_and_a_new_configuration_lets_it_go_on() -> None:
    state = mark_unreadable(fold([config(), *tasks(1)]), 3, C, "why")
    assert state.end == 4
    assert not state.connector(C).startable
    assert state.connector(C).unreadable == "why"
    assert apply(state, 4, config()).connector(C).unreadable is None


def test_what_concerns_no_connector_is_kept_beside_them() -> None:
    key = SessionKeyRecord("k", "a", 1)
    restart = RestartRecord(C, True, False)
    state = fold([key, UnknownKey("strange"), restart])
    assert state.session_key == key
    assert state.unknown == {"strange"}
    assert state.restarts == {C: (2, restart)}
    assert state.end == 3
    assert C not in state


def test_a_commit_of_a_trillion_tasks_is_read_at_once() -> None:
    assert not c(config(), *tasks(1), CommitRecord(C, 10**12)).startable


@settings(max_examples=examples(300))
@given(histories, st.integers(0, 100))
def test_a_compacted_log_gives_the_same_verdicts(history: Sequence[ConfigRecord], until: int) -> None:
    """Compaction has dealt with the part before `until`: of each key only the newest record there is left."""
    newest = {encode(record)[0]: offset for offset, record in enumerate(history[:until])}
    compacted = [
        record if offset >= until or newest[encode(record)[0]] == offset else None
        for offset, record in enumerate(history)
    ]
    full, short = fold(history).connector(C), fold(compacted).connector(C)
    assert verdicts(short) == verdicts(full)
    if full.startable:
        assert {n: task.config for n, task in short.tasks.items()} == {n: t.config for n, t in full.tasks.items()}
