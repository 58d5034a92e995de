"""A platform whose small tasks share processes: whatever happens to one, every record of each is there once."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.e2e import processes
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.waiting import eventually

COUNT = 4


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("shared"), workers=1, settings={"CONNECT_TASK_ISOLATION": "shared"}) as made:
        yield made


def test_tasks_of_a_process_that_is_killed_or_frozen_miss_nothing(up: Up) -> None:
    flows = [Flow(up, unique("shared"), throughput=50).create() for _ in range(COUNT)]
    worker = up.pid("worker-1")
    pids = {flow.process("worker-1") for flow in flows}
    assert len(pids) == 1, "they share a process"
    (shared,) = pids

    os.kill(shared, signal.SIGKILL)
    for flow in flows:
        flow.await_progress(timeout=60)
    assert shared not in processes.tasks(worker)

    def again() -> set[int]:
        return {flow.process("worker-1") for flow in flows}

    eventually(lambda: len(again()) == 1, 30, lambda: f"they share a process again: {again()}")
    (frozen,) = again()
    with processes.frozen([frozen]):
        flows[0].up.rest.settled(202, "POST", f"/connectors/{flows[0].name}/restart?includeTasks=true")
    for flow in flows:
        flow.await_progress(timeout=60)
        flow.settle()


def test_a_task_that_is_paused_and_deleted_leaves_the_others_alone(up: Up) -> None:
    first, second = (Flow(up, unique("beside"), throughput=50).create() for _ in range(2))
    shared = second.process("worker-1")
    before = second.started()
    first.settle()
    first.delete()
    second.await_progress(timeout=60)
    assert second.process("worker-1") == shared
    assert second.started() == before
    second.settle()
