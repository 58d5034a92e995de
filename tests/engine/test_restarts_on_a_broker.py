"""On the real broker: automatic restarts, what the next attempt measures, restarts by hand, too many tasks."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ringfence.engine.leader.command_service import CommandService
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.leader.members import identity
from ringfence.engine.platform_topics import ensure_topics, topics_of
from ringfence.engine.plugins import PluginHost
from ringfence.engine.spark.task_process import run_spec
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.leader import restarts
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics import events
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.events import Event
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import FAILED, RESTARTED, State, TaskStatus
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.requests.commands import SentCommand
from ringfence.worker_config import WorkerConfig
from tests.plugins.conftest import PATIENCE, environment, hostile  # noqa: F401 - a fixture
from tests.support.broker import Broker
from tests.support.waiting import eventually

C = ConnectorName("numbers")
T0 = TaskId(C, 0)


class Cluster:
    """A leader and no launcher: the test plays the tasks."""

    def __init__(
        self,
        broker: Broker,
        unique: Callable[[str], str],
        installed: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """settings: more of the worker's, as `CONNECT_*`."""
        topics = {
            f"CONNECT_{role}_STORAGE_TOPIC": unique(role.lower()) for role in ("CONFIG", "OFFSET", "STATUS", "EVENTS")
        }
        factors = {f"{name.removesuffix('_TOPIC')}_REPLICATION_FACTOR": "1" for name in topics}
        self.config = WorkerConfig.from_environment(
            {
                **topics,
                **factors,
                "CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap,
                "CONNECT_GROUP_ID": unique("group"),
                "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
                "CONNECT_OFFSET_STORAGE_PARTITIONS": "1",
                **(settings or {}),
            }
        )
        self.connection = self.config.connection("test")
        ensure_topics(self.connection, self.config, Deadline.after(60))
        self.reporter = Reporter(self.connection, self.config.status_topic, self.config.events_topic)
        self.record = identity("w1", "i1", self.config, 4, "1", self.reporter.now_ms())
        self.plugins = PluginHost(environment=installed, call_seconds=PATIENCE)
        self.leader = Leader(self.config, self.record, self.plugins, self.reporter)
        self.commands = CommandService(self.leader, self.plugins, self.reporter, self.connection)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.leader.run, args=(self._stop,))

    def start(self) -> None:
        self._thread.start()
        self.reporter.status(self.record)
        assert self.leader.ready.wait(60)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self.plugins.close()
        self.reporter.close()

    def command(
        self, kind: str, body: Mapping[str, object] | None = None, limit: Deadline | None = None, on: str | None = C
    ) -> dict[str, object]:
        wanted: SentCommand = {"kind": kind, "connector": on, "body": body or {}, "request_id": f"{kind}-{time.time()}"}
        return self.commands.execute(wanted, limit or Deadline.after(30))

    def placement(self) -> Placement | None:
        return self.leader.state().connector(C).placements.get(0)

    def status(self) -> TaskStatus:
        return eventually(lambda: self.leader.statuses().tasks.get(T0), 10) or pytest.fail("no status")

    def fail(self, placement: Placement) -> None:
        self.reporter.status(
            TaskStatus(
                T0,
                State.FAILED,
                placement.worker,
                placement.generation,
                placement.attempt,
                placement.incarnation,
                "Traceback: the source is away",
                ended=True,
                why=FAILED,
                since_ms=self.reporter.now_ms(),
            )
        )

    def spec(self, placement: Placement) -> TaskSpec:
        connector = self.leader.state().connector(C)
        task = connector.tasks[0].config
        return TaskSpec(
            self.connection, self.config.group_id, topics_of(self.config), T0, placement, task["task.class"],
            connector.config or {}, task, self.config.settings,
        )  # fmt: skip

    def events(self) -> list[Event]:
        log = TopicLog(self.connection, self.config.events_topic)
        try:
            records = list(log.read_to_end(Deadline.after(30)))
        finally:
            log.close()
        return [found for record in records if (found := events.decode(record.value)) is not None]


@pytest.fixture
def cluster(
    broker: Broker,
    unique: Callable[[str], str],
    environment: Mapping[str, str],  # noqa: F811 - the fixture that is imported above
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Cluster]:
    monkeypatch.setattr(restarts, "FIRST_S", 5)
    made = Cluster(broker, unique, environment)
    made.start()
    yield made
    made.close()


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
