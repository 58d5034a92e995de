"""On the real broker: automatic restarts, what the next attempt measures, restarts by hand, too many tasks."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence.engine.spark.task_process import run_spec
from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import RESTARTED, State
from tests.support.engine_cluster import C, Cluster
from tests.support.plugin_hosts import hostile
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("quick_restarts")


def test_a_failed_task_is_restarted_counted_and_measured(cluster: Cluster, unique: Callable[[str], str]) -> None:
    config = {"name": C, "connector.class": "VerifiableSource", "topic": unique("numbers"), "throughput": "2000"}
    assert cluster.command("create", {"config": config})["ok"] is True
    first = eventually(cluster.placement, 30)
    assert first is not None
    cluster.fail(first)
    eventually(lambda: cluster.status().next_ms, 10, "the time of the next restart")
    assert cluster.status().trace == "Traceback: the source is away"
    second = eventually(lambda: (p := cluster.placement()) and p.attempt == 2 and p, 20, "the second attempt")
    assert second
    assert second.restarts == 1
    eventually(lambda: cluster.status().attempt == 2, 5)
    said = cluster.status()
    assert (said.state, said.why, said.restarts, said.next_ms) == (State.RESTARTING, RESTARTED, 1, 0)

    reporter = Reporter(cluster.connection, cluster.config.status_topic, cluster.config.events_topic)
    task = threading.Thread(target=run_spec, args=(cluster.spec(second), reporter))
    task.start()
    eventually(lambda: cluster.status().state is State.RUNNING, 30, "the second attempt runs")
    assert cluster.status().restarts == 1
    time.sleep(1.5)
    assert cluster.command("stop")["ok"] is True
    task.join(30)
    reporter.close()
    assert not task.is_alive()
    reports = [event for event in cluster.events() if event["type"] == "progress"]
    last = json.loads(json.dumps(reports[-1]))
    assert last["records"] == last["polled"] > 0
    for spread in ("poll_ms", "batch_records", "active_records", "commit_times_ms", "transaction_records"):
        assert last[spread]["count"] > 0
        assert last[spread]["min"] <= last[spread]["sum"] / last[spread]["count"] <= last[spread]["max"]
    assert last["commit_failed"]["sum"] == last["commit_failures"] == 0
    assert 1_000 < last["running_ms"] <= last["life_ms"]
    stages = [event["stage"] for event in cluster.events() if event["type"] == "task"]
    assert stages.count("restarted automatically") == 1


def test_the_answers_to_a_restart_by_hand(cluster: Cluster, unique: Callable[[str], str]) -> None:
    assert cluster.command("restart_task", {"task": 0})["status"] == 404
    config = {"name": C, "connector.class": "VerifiableSource", "topic": unique("numbers")}
    cluster.command("create", {"config": config})
    first = eventually(cluster.placement, 30)
    assert first is not None
    assert cluster.command("restart_task", {"task": 1})["status"] == 404
    late = cluster.command("restart_task", {"task": 0}, limit=Deadline.after(-1))
    assert (late["status"], "timed out" in str(late["message"])) == (500, True)
    assert cluster.placement() == first
    assert cluster.command("restart_task", {"task": 0})["ok"] is True
    again = cluster.placement()
    assert again is not None
    assert (again.attempt, again.restarts) == (first.attempt + 1, 0)
    cluster.command("delete")
    assert cluster.command("restart_task", {"task": 0})["status"] == 404


def test_a_connector_that_somebody_restarts_is_restarting_until_its_new_instance_runs(
    cluster: Cluster, tmp_path: Path
) -> None:
    def state() -> State | None:
        found = cluster.leader.statuses().connectors.get(C)
        return found.state if found else None

    config = {**hostile("wait in start again", marker=str(tmp_path / "marker")), "name": str(C)}
    assert cluster.command("create", {"config": config})["ok"] is True
    eventually(lambda: state() is State.RUNNING, 20, state)
    before = cluster.placement()
    assert cluster.command("restart")["ok"] is True
    eventually(lambda: state() is State.RESTARTING, 8, state)
    (tmp_path / "marker.go").touch()
    eventually(lambda: state() is State.RUNNING, 20, state)
    assert cluster.placement() == before  # its tasks go on


def test_more_tasks_than_tasks_max_fail_the_connector_unless_it_is_told_not_to(cluster: Cluster) -> None:
    config = {**hostile(count="3"), "name": str(C), "tasks.max": "2"}
    assert cluster.command("create", {"config": config})["ok"] is True
    words = f"The connector {C} has generated 3 tasks, which is greater than 2, the maximum number of tasks"

    def failed() -> bool:
        found = cluster.leader.statuses().connectors.get(C)
        return found is not None and found.state is State.FAILED and words in (found.trace or "")

    eventually(failed, 20, lambda: cluster.leader.statuses().connectors)
    assert cluster.placement() is None
    assert cluster.command("configure", {"config": {**config, "tasks.max.enforce": "false"}})["ok"] is True
    eventually(lambda: len(cluster.leader.state().connector(C).placements) == 3, 20)
    eventually(lambda: cluster.leader.statuses().connectors[C].state is State.RUNNING, 20)
