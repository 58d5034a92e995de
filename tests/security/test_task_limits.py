"""No configuration makes the process that all connectors share build more tasks than the workers allow."""

from collections.abc import Iterator

import pytest

from ringfence.connectors.common_settings import common_settings
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import MAX_TASKS, TASKS_MAX_LIMIT, WorkerLimits
from ringfence.engine.plugins import instances
from ringfence.engine.plugins.errors import PluginError
from ringfence.fencing.errors import Invalid, Unreadable
from ringfence.fencing.topics.config_records import decode
from ringfence.worker_config import WorkerConfig


@pytest.fixture
def ten() -> Iterator[None]:
    """A worker that allows ten tasks."""
    before = worker_limits.current()
    worker_limits.declare(WorkerLimits(tasks=10))
    yield
    worker_limits.declare(before)


def errors_of(tasks: str) -> list[str]:
    values = common_settings().validate({"name": "c", "connector.class": "x", "tasks.max": tasks})
    return next(value.errors for value in values if value.name == "tasks.max")


@pytest.mark.usefixtures("ten")
def test_more_tasks_than_the_workers_allow_are_refused_with_the_remedy() -> None:
    assert errors_of("10") == []
    for tasks in ("11", "20000", "2147483647"):
        (error,) = errors_of(tasks)
        assert "no more than 10" in error
        assert TASKS_MAX_LIMIT in error
    assert "at least 1" in errors_of("0")[0]
    assert errors_of("2147483648"), "beyond Kafka's INT"


def test_the_default_is_met_by_nobody_and_stops_no_cluster() -> None:
    assert errors_of("1000") == []
    assert errors_of("1001")


def test_the_limit_is_a_worker_setting() -> None:
    config = WorkerConfig.from_environment({"CONNECT_TASKS_MAX_LIMIT": "5000"})
    assert worker_limits.of_settings(config.settings).tasks == 5000
    assert worker_limits.of_settings(WorkerLimits(tasks=7).as_settings()).tasks == 7
    for wrong in ("0", "-1", "many", str(MAX_TASKS + 1), "9" * 5000):
        with pytest.raises(Invalid, match=TASKS_MAX_LIMIT.replace(".", r"\.")):
            WorkerConfig.from_environment({"CONNECT_TASKS_MAX_LIMIT": wrong})


@pytest.mark.usefixtures("ten")
def test_a_connector_that_asks_for_more_runs_with_the_limit_and_says_so() -> None:
    assert instances.cut_tasks("c", 10) == (10, "")
    tasks, warning = instances.cut_tasks("c", 2**31 - 1)
    assert tasks == 10
    assert "tasks.max of connector c is 2147483647" in warning
    assert TASKS_MAX_LIMIT in warning


@pytest.mark.usefixtures("ten")
def test_more_or_larger_configurations_than_allowed_are_refused() -> None:
    instances.check_task_configs("c", [{"a": "b"}] * 10)
    with pytest.raises(PluginError, match="generated 11 tasks"):
        instances.check_task_configs("c", [{"a": "b"}] * 11)
    with pytest.raises(PluginError, match="for task 1 has"):
        instances.check_task_configs("c", [{}, {"a": "ü" * (instances.MAX_TASK_BYTES // 2)}])
    worker_limits.declare(WorkerLimits(tasks=100))
    with pytest.raises(PluginError, match="more than"):
        instances.check_task_configs("c", [{"a": "x" * 600_000}] * 60)


@pytest.mark.parametrize("key", ["commit-c", "tasks-count-c", "tasks-fencing-c"])
def test_a_record_that_claims_more_tasks_cannot_be_read(key: str) -> None:
    field = "task-count" if key.startswith("tasks-fencing") else "tasks"
    with pytest.raises(Unreadable, match="tasks at most"):
        decode(key.encode(), b'{"%s": 2147483647, "generation": 1}' % field.encode())
