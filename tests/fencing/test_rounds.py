"""Fencing rounds: which ids are fenced, and when the round may say that it is done."""

import pytest

from ringfence.fencing.errors import Conflict
from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.leader.fencing_round import finish, finish_all, plan
from ringfence.fencing.topics.config_records import CommitRecord, ConnectorRecord, TaskCountRecord
from tests.support.cluster_states import C, c, config, fold, tasks


def test_nothing_is_due_before_the_first_commit_or_after_the_count() -> None:
    assert plan(c(), "g") is None
    assert plan(c(config()), "g") is None
    assert plan(c(config(), *tasks(1), TaskCountRecord(C, 1, Generation(2))), "g") is None


def test_the_first_round_has_nothing_to_fence() -> None:
    due = plan(c(config(), *tasks(3)), "g")
    assert due is not None
    assert due.ids == []
    assert (due.tasks, due.generation) == (3, 4)


def test_every_id_of_the_old_count_is_fenced_where_the_old_count_says() -> None:
    old = TaskCountRecord(C, 3, Generation(4), {"bootstrap.servers": "elsewhere:9092"})
    due = plan(c(config(), *tasks(3), old, *tasks(1)), "g")
    assert due is not None
    assert due.ids == ["g-c-0", "g-c-1", "g-c-2"]
    assert due.tasks == 1
    assert due.target == {"bootstrap.servers": "elsewhere:9092"}


def test_one_task_before_and_after_is_fenced_all_the_same() -> None:
    due = plan(c(config(), *tasks(1), TaskCountRecord(C, 1, Generation(2)), *tasks(1)), "g")
    assert due is not None
    assert due.ids == ["g-c-0"]


def test_a_count_that_names_no_generation_makes_a_round_due() -> None:
    due = plan(c(config(), *tasks(1), TaskCountRecord(C, 2, None)), "g")
    assert due is not None
    assert due.ids == ["g-c-0", "g-c-1"]


def test_a_deleted_connectors_tasks_are_fenced() -> None:
    start = [config(), *tasks(2), TaskCountRecord(C, 2, Generation(3), elsewhere=False)]
    due = plan(c(*start, CommitRecord(C, 0), ConnectorRecord(C, None)), "g")
    assert due is not None
    assert due.ids == ["g-c-0", "g-c-1"]
    assert due.tasks == 0


def test_a_finished_round_writes_connects_count_and_then_ours_which_ends_it() -> None:
    state = fold([config(), *tasks(2)])
    due = plan(state.connector(C), "g")
    assert due is not None
    written = finish(due, state)
    assert written == [TaskCountRecord(C, 2, None), TaskCountRecord(C, 2, Generation(3), elsewhere=False)]
    assert fold(written, state).connector(C).runnable


def test_a_round_is_void_when_a_newer_generation_came_meanwhile() -> None:
    state = fold([config(), *tasks(2)])
    due = plan(state.connector(C), "g")
    assert due is not None
    with pytest.raises(Conflict, match="newer generation"):
        finish(due, fold(tasks(2), state))


def test_a_round_that_somebody_else_finished_writes_nothing() -> None:
    state = fold([config(), *tasks(2)])
    due = plan(state.connector(C), "g")
    assert due is not None
    assert finish(due, fold(finish(due, state), state)) == []


def test_rounds_that_end_together_are_one_transaction_without_those_that_are_void() -> None:
    other = ConnectorName("other")
    state = fold([config(), *tasks(1), ConnectorRecord(other, {}), CommitRecord(other, 0)])
    first, second = plan(state.connector(C), "g"), plan(state.connector(other), "g")
    assert first is not None
    assert second is not None
    newer = fold([CommitRecord(C, 1)], state)
    records, void = finish_all([first, second], newer)
    assert records == finish(second, newer)
    assert list(void) == [C]
    assert finish_all([first, second], state) == ([*finish(first, state), *finish(second, state)], {})
