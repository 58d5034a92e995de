"""What leader and worker remember of attempts is forgotten when it no longer matters."""

from types import SimpleNamespace
from typing import Any, cast

from ringfence.engine.leader.members import LostAttempts
from ringfence.engine.spark.launcher import Launcher
from ringfence.fencing.ids import TaskId
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import CommitRecord, ConfigRecord, ConnectorRecord
from ringfence.fencing.topics.status import LOST, State, StatusState, WorkerRecord
from ringfence.worker_config import WorkerConfig
from tests.support.cluster_states import C, fold
from tests.support.decisions import T0, A, on, running, said


def status_of(attempt: int) -> StatusState:
    return StatusState(tasks=said(on(A, 0, attempt), State.UNASSIGNED, LOST, ended=True))


def test_losses_are_forgotten_once_they_are_forgiven() -> None:
    losses = LostAttempts(None)
    state = fold([*running(1), on(A, 0)])
    losses.note(state, status_of(1), [A], 100.0)
    first = losses.not_before[T0]
    assert first >= 100.0
    losses.note(state, status_of(1), [A], 1000.0)
    assert losses.not_before == {T0: first}, "it is still the newest attempt, and is not taken for another loss"
    state = apply(state, state.end, on(A, 0, 2))
    losses.note(state, StatusState(), [A], 1001.0)
    losses.note(state, StatusState(), [A], 2000.0)
    assert losses.not_before == {}


def test_losses_in_a_row_count_until_they_are_forgiven() -> None:
    losses = LostAttempts(None)
    for attempt in (1, 2, 3):
        losses.note(fold([*running(1), on(A, 0, attempt)]), status_of(attempt), [A], 100.0 + attempt)
    assert losses.not_before[T0] > 103 + 1.5
    losses.note(fold([*running(1), on(A, 0, 4)]), StatusState(), [A], 162.0)
    assert T0 in losses.not_before, "the next loss is another one in a row"
    losses.note(fold([]), StatusState(), [A], 500.0)
    assert losses.not_before == {}, "the connector is gone"


class Spark:
    """Notes what is submitted."""

    def __init__(self) -> None:
        self.attempts: list[tuple[TaskId, int]] = []

    def submit(self, spec: Any, *_: object) -> None:
        self.attempts.append((spec.task, spec.placement.attempt))


def test_a_launcher_remembers_the_newest_placements_only() -> None:
    config = WorkerConfig.from_environment(
        {"CONNECT_BOOTSTRAP_SERVERS": "127.0.0.1:1", "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled"}
    )
    record, nobody = WorkerRecord(A.worker, A.incarnation, "enabled", 4, "0", 0), cast(Any, SimpleNamespace())
    launcher = Launcher(config, record, nobody, nobody, free=lambda: 1 << 40)
    spark = Spark()
    launcher._spark = cast(Any, spark)

    def follow(state: ClusterState, *records: ConfigRecord) -> ClusterState:
        for each in records:
            state = apply(state, state.end, each)
        launcher._start_placed(state)
        return state

    state = follow(ClusterState(), *running(2), on(A, 0, 1, 3), on(A, 1, 1, 3))
    state = follow(state, on(A, 0, 2, 3))
    state = follow(state)
    assert spark.attempts == [(TaskId(C, 0), 1), (TaskId(C, 1), 1), (TaskId(C, 0), 2)], "each starts once"
    assert {number: one.attempt for number, one in launcher._newest_placements[C].items()} == {0: 2, 1: 1}
    follow(state, CommitRecord(C, 0), ConnectorRecord(C, None))
    assert launcher._newest_placements == {}
