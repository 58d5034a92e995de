"""Which transactional ids the leader fences because nobody else will."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ringfence.fencing.ids import TaskId
from ringfence.fencing.leader.older_epochs import find_abandoned
from ringfence.fencing.modes import Mode
from ringfence.fencing.topics.config_records import ConfigRecord
from ringfence.fencing.topics.status import FAILED, LOST, State, StatusState, TaskStatus, decode, encode
from tests.support.cluster_states import config, fold, tasks
from tests.support.decisions import T0, A, on, running, said

LIVE = {(A.worker, A.incarnation)}


def found(records: Sequence[ConfigRecord], status: Mapping[TaskId, TaskStatus], *, gone: bool = False) -> list[TaskId]:
    due = find_abandoned(fold(records), StatusState(tasks=status), set() if gone else LIVE)
    return [last.task for last in due]


def ended(state: State, why: str, *, left_open: bool = True) -> dict[TaskId, TaskStatus]:
    (status,) = said(on(A, 0), state, why, ended=True).values()
    return {T0: replace(status, left_open=left_open)}


def test_a_task_that_failed_with_a_transaction_open_and_one_that_was_lost_are_fenced() -> None:
    placed = [*running(1), replace(on(A, 0), mode=Mode.ENABLED)]
    assert found(placed, ended(State.FAILED, FAILED)) == [T0]
    assert found(placed, ended(State.UNASSIGNED, LOST)) == [T0]
    assert found(placed, ended(State.FAILED, FAILED, left_open=False)) == []


def test_one_whose_worker_left_is_fenced_where_it_has_no_other_place_yet() -> None:
    placed = [*running(1), replace(on(A, 0), mode=Mode.ENABLED)]
    assert found(placed, said(on(A, 0))) == []
    assert found(placed, said(on(A, 0)), gone=True) == [T0]
    again = [*placed, replace(on(A, 0, attempt=2), mode=Mode.ENABLED)]
    assert found(again, said(on(A, 0)), gone=True) == []


def test_a_newer_attempt_a_pending_round_and_a_task_without_transactions_are_left_alone() -> None:
    placed = [*running(1), replace(on(A, 0), mode=Mode.ENABLED)]
    left = ended(State.FAILED, FAILED)
    assert found([*placed, replace(on(A, 0, attempt=2), mode=Mode.ENABLED)], left) == []
    assert found([*placed, config(), *tasks(1)], left) == []
    assert found([*running(1), replace(on(A, 0), mode=Mode.DISABLED)], left) == []


def test_the_status_topic_carries_it() -> None:
    (status,) = ended(State.FAILED, FAILED).values()
    assert decode(*encode(status)) == status
