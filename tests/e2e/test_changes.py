"""Changes in full flow: every task's numbers go on where they were."""

from collections.abc import Callable

import pytest

from tests.e2e.flow import Flow
from tests.e2e.up import Up


@pytest.mark.thorough
@pytest.mark.parametrize(
    "interval_ms", [pytest.param(0, id="poll", marks=pytest.mark.slow), pytest.param(300, id="interval")]
)
def test_more_tasks_and_fewer_again(platform: Up, flow: Callable[..., Flow], interval_ms: int) -> None:
    one = flow(throughput=200, interval_ms=interval_ms)
    for tasks in (3, 1, 2):
        one.configure(tasks=tasks)
        one.await_states("RUNNING")
        one.await_progress()
    one.settle()


@pytest.mark.thorough
def test_pause_and_resume_restart_and_stop(platform: Up, flow: Callable[..., Flow]) -> None:
    one = flow(tasks=2)
    rest, path = platform.rest, f"/connectors/{one.name}"
    rest.settled(202, "PUT", f"{path}/pause")
    one.await_states("PAUSED")
    one.check()
    rest.settled(202, "PUT", f"{path}/resume")
    one.await_progress()
    rest.settled(202, "POST", f"{path}/restart?includeTasks=true")
    one.await_progress()
    rest.settled(204, "POST", f"{path}/tasks/1/restart")
    one.await_progress()
    rest.settled(204, "PUT", f"{path}/stop")
    one.check()
    rest.settled(202, "PUT", f"{path}/resume")
    one.await_progress()
    one.settle()
