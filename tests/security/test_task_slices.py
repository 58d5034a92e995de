"""A long task set is written in bounded transactions, and takes effect with its commit record, whoever ends it."""

import random

import pytest

from ringfence.engine.leader.commands import FenceNow, Stop
from ringfence.engine.leader.commands.command import Plan
from ringfence.engine.leader.commands.lifecycle import plan_resume
from ringfence.engine.leader.commands.saving import plan_change, plan_creation
from ringfence.engine.leader.task_slices import MAX_BYTES, MAX_RECORDS, fits, is_written, next_slice, plan_tasks
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState, Fold, apply
from ringfence.fencing.topics.config_records import CommitRecord, ConnectorRecord, TaskRecord, decode, encode
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.requests.request import Refusal

C = ConnectorName("c")
CONFIG = {"name": "c", "connector.class": "X"}


def tasks(count: int, mark: str = "a") -> list[dict[str, str]]:
    return [{"task.id": str(n), "mark": mark} for n in range(count)]


def write(state: ClusterState, plan: Plan) -> tuple[ClusterState, int]:
    """Write what a plan says, through bytes; return the state, and the number of records."""
    records = plan(state)
    size = 0
    for record in records:
        key, value = encode(record)  # type: ignore[arg-type]
        size += len(key) + len(value or b"")
        state = apply(state, state.end, decode(key, value))
    assert len(records) <= MAX_RECORDS + 4
    assert size < 2 * MAX_BYTES
    return state, len(records)


def write_all(state: ClusterState, count: int, mark: str = "a") -> ClusterState:
    """As the reconcile loop does."""
    offset = state.connector(C).config_offset
    for _ in range(1000):
        if is_written(state.connector(C), offset, tasks(count, mark)):
            return state
        state, _ = write(state, plan_tasks(C, offset, tasks(count, mark)))
    raise AssertionError("it never ends")


def marks(state: ClusterState) -> list[str]:
    found = state.connector(C).tasks
    return [found[n].config["mark"] for n in sorted(found)]


def test_few_tasks_are_written_with_their_command() -> None:
    state, _ = write(ClusterState(), plan_creation(C, CONFIG, TargetState.RUNNING, tasks(MAX_RECORDS)))
    assert state.connector(C).startable


def test_many_tasks_follow_their_configuration_in_slices() -> None:
    state, count = write(ClusterState(), plan_creation(C, CONFIG, TargetState.RUNNING, tasks(3000)))
    assert count == 1
    assert state.connector(C).tasks_stale
    offset, steps = state.connector(C).config_offset, 0
    while not is_written(state.connector(C), offset, tasks(3000)):
        assert marks(state) == []
        assert not state.connector(C).startable
        state, _ = write(state, plan_tasks(C, offset, tasks(3000)))
        steps += 1
    assert steps == 3000 // MAX_RECORDS
    assert state.connector(C).startable
    assert marks(state) == ["a"] * 3000


def test_large_records_make_small_slices() -> None:
    large = [{"task.id": str(n), "mark": "x" * 200_000} for n in range(5)]
    assert not fits(large)
    state = apply(ClusterState(), 0, ConnectorRecord(C, CONFIG))
    sizes = []
    while not is_written(state.connector(C), 0, large):
        state, count = write(state, plan_tasks(C, 0, large))
        sizes.append(count)
    assert sizes == [2, 2, 2]  # the last one with its commit record


def test_the_old_generation_stays_until_the_commit_record() -> None:
    state = write_all(apply(ClusterState(), 0, ConnectorRecord(C, CONFIG)), 1000)
    generation, offset = state.connector(C).generation, state.connector(C).config_offset
    state, _ = write(state, plan_tasks(C, offset, tasks(900, "b")))
    assert marks(state) == ["a"] * 1000
    assert state.connector(C).generation == generation
    assert state.connector(C).startable, "its tasks go on"
    state = write_all(state, 900, "b")
    assert marks(state) == ["b"] * 900
    assert state.connector(C).generation != generation


@pytest.mark.parametrize("seed", range(20))
def test_whoever_takes_over_ends_the_set(seed: int) -> None:
    """Leaders that die between two slices, with other answers of the plugin, and with other commands in between."""
    chance = random.Random(seed)
    state, _ = write(ClusterState(), plan_creation(C, CONFIG, TargetState.RUNNING, None))
    for _ in range(chance.randrange(1, 6)):
        offset = state.connector(C).config_offset
        for _ in range(chance.randrange(5)):
            state, _ = write(state, plan_tasks(C, offset, tasks(chance.randrange(300, 900), chance.choice("xy"))))
        if chance.random() < 0.3:
            state, _ = write(state, plan_change(C, {**CONFIG, "n": str(chance.random())}, tasks(700), None))
        if chance.random() < 0.3:
            state, _ = write(state, Stop(C).records)
            state, _ = write(state, plan_resume(C, tasks(700)))
            assert state.connector(C).target is TargetState.RUNNING
            assert state.connector(C).tasks_stale, "it must not run with no tasks"
    state = write_all(state, 650, "z")
    assert marks(state) == ["z"] * 650
    assert state.connector(C).startable
    assert not state.connector(C).pending


def test_a_stopped_or_deleted_connector_gets_no_more_of_its_set() -> None:
    state, _ = write(ClusterState(), plan_creation(C, CONFIG, TargetState.RUNNING, tasks(900)))
    offset = state.connector(C).config_offset
    state, _ = write(state, plan_tasks(C, offset, tasks(900)))
    state, _ = write(state, Stop(C).records)
    assert is_written(state.connector(C), offset, tasks(900))
    assert plan_tasks(C, offset, tasks(900))(state) == []


def test_a_fence_of_many_tasks_repeats_them_ahead() -> None:
    state = write_all(apply(ClusterState(), 0, ConnectorRecord(C, CONFIG)), 1000)
    before = state.connector(C).generation
    with pytest.raises(Refusal, match="changed in between"):
        FenceNow(C, "").records(state)
    for _ in range(1000 // MAX_RECORDS - 1):
        state, count = write(state, FenceNow(C, "").records_ahead)
        assert count
        assert state.connector(C).generation == before
    assert FenceNow(C, "").records_ahead(state) == []
    state, _ = write(state, FenceNow(C, "").records)
    assert state.connector(C).generation not in (None, before)
    assert marks(state) == ["a"] * 1000


def test_a_snapshot_of_the_state_does_not_change_later() -> None:
    folding = Fold(apply(ClusterState(), 0, ConnectorRecord(C, CONFIG)))
    records = next_slice(folding.connector(C), tasks(MAX_RECORDS))
    snapshots = []
    for offset, record in enumerate(records[:50], 1):
        folding.apply(offset, record)
        if offset % 10 == 0:
            snapshots.append(folding.state)
    assert [len(each.connector(C).pending) for each in snapshots] == [10, 20, 30, 40, 50]
    assert isinstance(records[0], TaskRecord)
    assert isinstance(records[-1], CommitRecord)
