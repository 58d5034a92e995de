"""What the config topic means for one attempt of a task."""

from dataclasses import replace

import pytest

from ringfence.fencing.ids import Generation, TaskId
from ringfence.fencing.modes import MODE_KEY
from ringfence.fencing.task.config_view import DesiredState, judge, may_hand_over
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TargetStateRecord,
    TaskCountRecord,
)
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from tests.support.cluster_states import C, c, config, place, tasks
from tests.support.task_specs import SPEC

WAITING: list[ConfigRecord] = [config(), *tasks(1), place(0, 2, 2)]
RUNNING: list[ConfigRecord] = [*WAITING, TaskCountRecord(C, 1, Generation(2))]


def verdict(*records: ConfigRecord) -> DesiredState:
    return judge(c(*records), SPEC)


def test_the_newest_attempt_runs_once_its_round_is_over() -> None:
    assert verdict(*WAITING) is DesiredState.WAIT
    assert verdict(*RUNNING) is DesiredState.RUN


def test_a_pause_is_a_pause_and_a_stop_is_an_end() -> None:
    assert verdict(*RUNNING, TargetStateRecord(C, TargetState.PAUSED)) is DesiredState.PAUSE
    assert verdict(*WAITING, TargetStateRecord(C, TargetState.PAUSED)) is DesiredState.WAIT
    assert verdict(*RUNNING, TargetStateRecord(C, TargetState.STOPPED)) is DesiredState.END
    assert (
        verdict(*RUNNING, TargetStateRecord(C, TargetState.PAUSED), TargetStateRecord(C, TargetState.RUNNING))
        is DesiredState.RUN
    )


def test_a_newer_attempt_ends_an_older_one() -> None:
    assert verdict(*RUNNING, place(0, 3, 2)) is DesiredState.END
    assert verdict(*RUNNING, place(1, 3, 2)) is DesiredState.RUN
    assert verdict(*RUNNING, PlacementRecord(TaskId(C, 0), None)) is DesiredState.END


def test_a_newer_generation_ends_all_attempts_of_the_older() -> None:
    assert verdict(*RUNNING, *tasks(1)) is DesiredState.END
    assert verdict(*RUNNING, *tasks(1), place(0, 2, 2)) is DesiredState.END


def test_a_new_configuration_and_a_deletion_end_the_attempt() -> None:
    assert verdict(*RUNNING, config(new="1")) is DesiredState.END
    assert verdict(*RUNNING, CommitRecord(C, 0), ConnectorRecord(C, None)) is DesiredState.END


def test_a_round_that_another_worker_kind_made_due_makes_a_running_attempt_wait() -> None:
    assert verdict(*RUNNING, TaskCountRecord(C, 1, None)) is DesiredState.WAIT


def test_an_attempt_that_the_config_topic_does_not_know_ends() -> None:
    assert judge(ConnectorState(C), SPEC) is DesiredState.END
    assert verdict(config(), *tasks(1)) is DesiredState.END


def test_a_spec_travels_as_text_and_shows_no_secret_in_its_repr() -> None:
    assert TaskSpec.loads(SPEC.dumps()) == SPEC
    assert "secret" not in repr(SPEC)
    assert SPEC.transactional_id == "g-c-0"


NEWER: list[ConfigRecord] = [config(new="1"), *tasks(2)]


def test_a_running_task_goes_on_for_a_moment_where_a_fence_waits_for_it() -> None:
    assert may_hand_over(c(*RUNNING, *NEWER), SPEC)
    assert may_hand_over(c(*RUNNING, *tasks(1), *tasks(1)), SPEC), "of two newer generations only the newest counts"


@pytest.mark.parametrize(
    "records",
    [
        [TargetStateRecord(C, TargetState.STOPPED), CommitRecord(C, 0)],
        [TargetStateRecord(C, TargetState.PAUSED), *tasks(1)],
        [CommitRecord(C, 0), ConnectorRecord(C, None)],
        [place(0, 3, 2)],
        [*tasks(1), TaskCountRecord(C, 1, Generation(4))],
        [*tasks(1), TaskCountRecord(C, 1, None)],
    ],
    ids=["stopped", "paused", "deleted", "another attempt", "fenced", "another kind of worker"],
)
def test_it_goes_on_for_nothing_else(records: list[ConfigRecord]) -> None:
    assert verdict(*RUNNING, *records) is not DesiredState.RUN
    assert not may_hand_over(c(*RUNNING, *records), SPEC)


def test_without_transactions_nothing_goes_on_beside_its_successor() -> None:
    settings = {**SPEC.worker_settings, MODE_KEY: "disabled"}
    assert not may_hand_over(c(*RUNNING, *NEWER), replace(SPEC, worker_settings=settings))
