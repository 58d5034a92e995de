"""A task whose process crashes: it has failed, and its status says where."""

import ctypes
import os
import queue
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from connectors.api import SourceRecord, SourceTask
from fencing.clock import Deadline
from fencing.kafka.reporter import Reporter
from fencing.kafka.settings import Connection
from fencing.status import State, WorkerRecord
from fencing.task_plugin import Outcome
from fencing.task_spec import TaskSpec
from ringfence.engine.launcher import Launcher
from ringfence.engine.spark_host import Lost, SparkHost
from ringfence.worker_config import WorkerConfig
from tests.guarantees.stage import Stage
from tests.support.broker import Broker

GOOD = 3  # polls before the trouble


class Trouble(SourceTask):
    """Gives some records, and then what its setting `trouble` names."""

    def start(self, config: Mapping[str, str]) -> None:
        self.config, self.polls = config, 0

    def poll(self) -> list[SourceRecord] | None:
        self.polls += 1
        if self.polls > GOOD:
            getattr(self, self.config["trouble"])()
        return [SourceRecord({"p": 0}, {"n": self.polls}, self.config["topic"], str(self.polls).encode())]

    def dereference_null(self) -> None:
        ctypes.string_at(0)

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def go_on(self) -> None:
        Path(self.config["marker"]).touch()
        time.sleep(0.01)


class Worker:
    """One Spark driver with a launcher that hears how attempts end; each task is the only one of a connector."""

    def __init__(self, bootstrap: str) -> None:
        self.connection = Connection(bootstrap)
        self.spark = SparkHost(4)
        self.stages: list[Stage] = []
        self.worker_settings = {"offset.flush.interval.ms": "200", "transaction.timeout.ms": "60000"}

    def start(self, name: str, trouble: str, **more: str) -> "tuple[Stage, queue.Queue[Outcome | Lost]]":
        stage = Stage(self.connection, name)
        self.stages.append(stage)
        config = {"name": "numbers", "topic": stage.data, "trouble": trouble, **more}
        stage.configure(config)
        stage.count()
        kind = f"{Trouble.__module__}.{Trouble.__name__}"
        spec = TaskSpec(
            self.connection,
            *(stage.group, stage.topics, stage.task, stage.place(1)),
            *(kind, config, config, self.worker_settings),
        )
        record = WorkerRecord(spec.placement.worker, spec.placement.incarnation, "enabled", 4, "0", 0)
        reporter = Reporter(self.connection, stage.topics.status, stage.topics.events)
        launcher = Launcher(WorkerConfig.from_environment({}), record, reporter)
        ends: queue.Queue[Outcome | Lost] = queue.Queue()

        def ended(spec: TaskSpec, result: Outcome | Lost) -> None:
            launcher.ended(spec, result)
            reporter.flush(30)
            ends.put(result)

        self.spark.submit(spec, ended)
        return stage, ends

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


def test_a_segmentation_fault_is_a_failure_with_its_stack(
    worker: Worker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    worker.start(unique("beside"), "go_on", marker=str(tmp_path / "beside"))
    stage, ends = worker.start(unique("crash"), "dereference_null")
    end = ends.get(timeout=90)
    assert isinstance(end, Outcome), end
    status = stage.status()
    assert status is not None
    assert (status.state, status.ended, status.why) == (State.FAILED, True, "failed")
    first, *stack = (status.trace or "").splitlines()
    assert first == "The task's process crashed. Fatal Python error: Segmentation fault"
    assert stack[1].startswith("Current thread"), status.trace
    assert any("test_crashed_tasks.py" in line and line.endswith("in dereference_null") for line in stack)
    deadline = Deadline.after(30)
    while not (tmp_path / "beside").exists():
        assert not deadline.expired, "the task beside it does not go on"
        time.sleep(0.05)


def test_a_task_that_was_killed_from_outside_is_lost(worker: Worker, unique: Callable[[str], str]) -> None:
    """Which means: another attempt is placed at once."""
    stage, ends = worker.start(unique("killed"), "die")
    end = ends.get(timeout=90)
    assert isinstance(end, Lost), end
    status = stage.status()
    assert status is not None
    assert (status.state, status.why, status.trace) == (State.UNASSIGNED, "lost", None)
