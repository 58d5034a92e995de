"""A task whose process crashes, or takes more memory than it may: it has failed, and its status says why."""

import ctypes
import os
import queue
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ringfence.connectors.api import SourceRecord, SourceTask
from ringfence.engine.config_topic import ConfigTopic
from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.engine.spark.launcher import Launcher
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.task_spec import Outcome, TaskSpec
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import State, WorkerRecord
from ringfence.memory_limit import memory_limit
from ringfence.worker_config import WorkerConfig
from tests.guarantees.stage import PARTITION, Stage
from tests.support.broker import Broker
from tests.support.waiting import eventually

GOOD = 3  # polls before the trouble


class Trouble(SourceTask):
    """Gives the numbers from 0 on, and after some of them what its setting `trouble` names, the first time only."""

    def start(self, config: Mapping[str, str]) -> None:
        self.config, self.polls = config, 0
        found = self.context.offset_reader.offset(PARTITION)
        self.next = int(str(found["next"])) if found else 0

    def poll(self) -> list[SourceRecord] | None:
        self.polls += 1
        if self.polls > GOOD:
            trouble = Path(self.config["marker"] + ".met")
            if not trouble.exists():
                trouble.touch()
                getattr(self, self.config["trouble"])()
            Path(self.config["marker"]).touch()
            self.context.wait(0.02)
        number, self.next = self.next, self.next + 1
        return [SourceRecord(PARTITION, {"next": self.next}, self.config["topic"], str(number).encode())]

    def dereference_null(self) -> None:
        ctypes.string_at(0)

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def eat_memory(self) -> None:
        eaten = []
        while True:
            eaten.append(bytearray(16 * 1024 * 1024))

    def go_on(self) -> None:
        """No trouble."""


class Worker:
    """One Spark driver with a launcher that hears how attempts end; each task is the only one of a connector."""

    def __init__(self, bootstrap: str) -> None:
        self.connection = Connection(bootstrap)
        self.spark = SparkHost(4)
        self.stages: list[Stage] = []
        self.worker_settings = {
            "offset.flush.interval.ms": "200",
            "transaction.timeout.ms": "60000",
            "task.memory.limit": "300m",
        }

    def start(self, name: str, trouble: str, marker: Path) -> "tuple[Stage, queue.Queue[Outcome | Lost]]":
        """`marker`: a file that is there as soon as the task has gone on after its trouble."""
        stage = Stage(self.connection, name)
        self.stages.append(stage)
        stage.configure({"name": "numbers", "topic": stage.data, "trouble": trouble, "marker": str(marker)})
        stage.count()
        return stage, self.attempt(stage, 1, trouble, marker)

    def attempt(self, stage: Stage, number: int, trouble: str, marker: Path) -> "queue.Queue[Outcome | Lost]":
        config = {"name": "numbers", "topic": stage.data, "trouble": trouble, "marker": str(marker)}
        kind = f"{Trouble.__module__}.{Trouble.__name__}"
        spec = TaskSpec(
            self.connection,
            *(stage.group, stage.topics, stage.task, stage.place(number)),
            *(kind, config, config, self.worker_settings),
        )
        record = WorkerRecord(spec.placement.worker, spec.placement.incarnation, "enabled", 4, "0", 0)
        reporter = Reporter(self.connection, stage.topics.status, stage.topics.events)
        settings = WorkerConfig.from_environment({})
        launcher = Launcher(settings, record, reporter, ConfigTopic(settings, self.connection))
        ends: queue.Queue[Outcome | Lost] = queue.Queue()

        def ended(spec: TaskSpec, result: Outcome | Lost) -> None:
            launcher.on_end(spec, result)
            reporter.flush(30)
            reporter.close()
            ends.put(result)

        self.spark.submit(spec, ended)
        return ends

    def close(self) -> None:
        self.spark.end_tasks()
        self.spark.join(20)
        self.spark.stop()
        for stage in self.stages:
            stage.close()


@pytest.fixture(scope="module")
def worker(broker: Broker, monkeypatch_module: pytest.MonkeyPatch) -> Iterator[Worker]:
    root = Path(__file__).parents[2]
    monkeypatch_module.setenv("PYTHONPATH", str(root))  # the tasks' processes find this module
    made = Worker(broker.bootstrap)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_sparks_daemon_has_no_port_that_others_can_connect_to(
    worker: Worker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    _, ends = worker.start(unique("port"), "go_on", tmp_path / "marker")
    eventually((tmp_path / "marker").exists, 90, "the task runs")
    daemons = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            if "ringfence.engine.spark.daemon" in one.cmdline():
                daemons.append(one)
    assert daemons
    for daemon in daemons:
        connections = daemon.net_connections("all")
        assert not [one for one in connections if one.status == psutil.CONN_LISTEN], connections
        paths = {str(one.laddr) for one in connections if one.family == socket.AF_UNIX}
        sockets = [path for path in paths if path.endswith(".sock")]
        assert sockets
        assert not any(Path(path).stat().st_mode & 0o022 for path in sockets), "only this user connects"
    worker.spark.end_tasks()
    ends.get(timeout=60)


def test_a_segmentation_fault_is_a_failure_with_its_stack(
    worker: Worker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    stage, ends = worker.start(unique("crash"), "dereference_null", tmp_path / "marker")
    end = ends.get(timeout=90)
    assert isinstance(end, Outcome), end
    status = stage.status()
    assert status is not None
    assert (status.state, status.ended, status.why) == (State.FAILED, True, "failed")
    first, *stack = (status.trace or "").splitlines()
    assert first == "The task's process crashed. Fatal Python error: Segmentation fault"
    assert stack[1].startswith("Current thread"), status.trace
    assert any("test_crashed_tasks.py" in line and line.endswith("in dereference_null") for line in stack)
    begun_again(worker, stage, "dereference_null", tmp_path / "marker")


def begun_again(worker: Worker, stage: Stage, trouble: str, marker: Path) -> None:
    """The next attempt goes on where the last commit ended: nothing is missing, and nothing there twice."""
    ends = worker.attempt(stage, 2, trouble, marker)
    eventually(marker.exists, 60, "the next attempt")
    stage.wait_for(len(stage.visible()) + 20)
    records = stage.visible()
    assert records == list(range(len(records)))
    assert ends.empty()


@pytest.mark.thorough
def test_a_task_that_eats_memory_fails_with_the_remedy_and_the_one_beside_it_goes_on(
    worker: Worker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    beside, ends_beside = worker.start(unique("beside"), "go_on", tmp_path / "beside")
    eventually((tmp_path / "beside").exists, 60, "the task beside it")
    stage, ends = worker.start(unique("hungry"), "eat_memory", tmp_path / "marker")
    end = ends.get(timeout=90)
    assert isinstance(end, Outcome), end
    status = stage.status()
    assert status is not None
    assert (status.state, status.ended) == (State.FAILED, True)
    assert "MemoryError" in (status.trace or "")
    assert "The task may use 300 MiB (task.memory.limit). Raise that worker setting" in (status.trace or "")
    beside.wait_for(len(beside.visible()) + 20)
    assert ends_beside.empty()
    begun_again(worker, stage, "eat_memory", tmp_path / "marker")


@pytest.mark.parametrize("size", ["10m", "lots", "-1", "255m", "1t"])
def test_a_limit_that_cannot_be_meant_is_refused(size: str) -> None:
    with pytest.raises(Invalid, match=r"task\.memory\.limit=.*at least 256m"):
        WorkerConfig.from_environment({"CONNECT_TASK_MEMORY_LIMIT": size})
    assert memory_limit({"task.memory.limit": " 2G "}) == 2 * 1024**3


def test_a_task_that_was_killed_from_outside_is_lost(
    worker: Worker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Which means: another attempt is placed at once."""
    stage, ends = worker.start(unique("killed"), "die", tmp_path / "marker")
    end = ends.get(timeout=90)
    assert isinstance(end, Lost), end
    status = stage.status()
    assert status is not None
    assert (status.state, status.why, status.trace) == (State.UNASSIGNED, "lost", None)
