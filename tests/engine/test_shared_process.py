"""Small tasks as threads of one process (`task.isolation=shared`): each is exact, also after its loss."""

import ctypes
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ringfence.connectors.api import SourceRecord, SourceTask
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.sdk.secret_names import hiding
from ringfence.engine.spark import shared_process
from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.engine.spark.shared_process import SharedProcess, SharedProcesses, inherit_contexts
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.task_spec import Outcome, TaskSpec
from ringfence.fencing.topics.connector_logs import LogPublisher, SharedLogs, redact_for_task
from ringfence.task_slots import slots_of
from ringfence.worker_config import WorkerConfig
from tests.guarantees.stage import PARTITION, Stage
from tests.support.broker import Broker
from tests.support.waiting import eventually

SHARED = {"task.isolation": "shared"}
log = logging.getLogger("tests.shared")


class Numbers(SourceTask):
    """Gives the numbers from 0 on, and does what its file `trouble` says. Its file `pid` names its process."""

    shares_process = True

    def start(self, config: Mapping[str, str]) -> None:
        self.config, self.folder = config, Path(config["folder"])
        offset = self.context.offset_reader.offset(PARTITION)
        self.next = int(str(offset["next"])) if offset else 0
        self.folder.joinpath("new").write_text(str(os.getpid()))
        self.folder.joinpath("new").rename(self.folder / "pid")  # at once, for those who read it

    def poll(self) -> list[SourceRecord] | None:
        trouble = self.folder / "trouble"
        if trouble.exists():
            getattr(self, trouble.read_text())()
        self.context.wait(0.02)
        number, self.next = self.next, self.next + 1
        return [SourceRecord(PARTITION, {"next": self.next}, self.config["topic"], str(number).encode())]

    def dereference_null(self) -> None:
        ctypes.string_at(0)

    def hang(self) -> None:
        while True:
            time.sleep(0.1)


class NumbersAlone(Numbers):
    """The same, of a class that must have a process of its own."""

    shares_process = False


class Task:
    """The only task of a connector, and its attempts."""

    def __init__(self, spark: SparkHost, connection: Connection, name: str, folder: Path, kind: type[Numbers]) -> None:
        folder.mkdir()
        self.stage = Stage(connection, name, name)
        self.folder = folder
        self.ends: queue.Queue[Outcome | Lost] = queue.Queue()
        self._spark, self._connection, self._kind = spark, connection, kind
        self._config = {"name": name, "topic": self.stage.data, "folder": str(folder)}
        self.stage.configure(self._config)
        self.stage.count()
        self.spec = self.attempt(1)

    def attempt(self, number: int) -> TaskSpec:
        self.spec = TaskSpec(
            self._connection,
            *(self.stage.group, self.stage.topics, self.stage.task, self.stage.place(number)),
            *(f"{self._kind.__module__}.{self._kind.__name__}", self._config, self._config),
            {"offset.flush.interval.ms": "200", "transaction.timeout.ms": "60000"},
        )
        self._spark.submit(self.spec, lambda _, end: self.ends.put(end))
        return self.spec

    @property
    def pid(self) -> int:
        return int(self.folder.joinpath("pid").read_text())

    def await_records(self) -> None:
        """Wait for some more, and check that none is missing or there twice."""
        self.stage.wait_for(len(self.stage.visible()) + 10)
        records = self.stage.visible()
        assert records == list(range(len(records)))


Start = Callable[..., Task]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkHost]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # the tasks' processes find this module
        patch.setattr(shared_process, "_OURS", (f"{__name__}.",))
        host = SparkHost(8, SHARED)
        try:
            yield host
        finally:
            host.end_tasks()
            host.join(20)
            host.stop()


@pytest.fixture
def start(broker: Broker, spark: SparkHost, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Start]:
    tasks: list[Task] = []

    def start_one(kind: type[Numbers] = Numbers) -> Task:
        connection, name = Connection(broker.bootstrap), unique("shared")
        tasks.append(Task(spark, connection, name, tmp_path / str(len(tasks)), kind))
        return tasks[-1]

    yield start_one
    for task in tasks:
        task.stage.place(99)  # ends whatever still runs
        eventually(lambda task=task: not spark.runs(task.spec), 60, "the end of the attempts")  # type: ignore[misc]
        task.stage.close()


def test_tasks_share_a_process_and_one_ends_without_the_others(start: Start) -> None:
    first, second, third = start(), start(), start()
    for task in (first, second, third):
        task.await_records()
    assert first.pid == second.pid == third.pid
    second.stage.place(2)
    end = second.ends.get(timeout=60)
    assert isinstance(end, Outcome)
    assert end.reason == "superseded"
    first.await_records()
    third.await_records()


def test_after_the_loss_of_the_process_each_goes_on_where_it_was(start: Start) -> None:
    tasks = [start(), start()]
    for task in tasks:
        task.await_records()
    lost = tasks[0].pid
    os.kill(lost, signal.SIGKILL)
    for task in tasks:
        end = task.ends.get(timeout=60)
        assert isinstance(end, Lost)
        assert "shared with others has ended" in end.reason
        task.attempt(2)
    for task in tasks:
        eventually(lambda task=task: task.pid != lost, 60, "another process")  # type: ignore[misc]
        task.await_records()
    assert tasks[0].pid == tasks[1].pid, "who was killed from outside is not to blame"


def test_after_a_crash_each_runs_alone_and_the_next_crash_has_a_culprit(start: Start) -> None:
    good, bad = start(), start()
    good.await_records()
    bad.await_records()
    shared = good.pid
    bad.folder.joinpath("trouble").write_text("dereference_null")
    for task in (good, bad):
        assert isinstance(task.ends.get(timeout=60), Lost)
    good.attempt(2)
    bad.attempt(2)
    end = bad.ends.get(timeout=60)
    assert isinstance(end, Outcome)
    assert "Segmentation fault" in (end.trace or "")
    good.await_records()
    assert good.pid not in (shared, bad.pid)
    assert good.ends.empty()


def test_a_class_that_does_not_allow_it_has_its_own_process(start: Start) -> None:
    shared, alone = start(), start(NumbersAlone)
    shared.await_records()
    alone.await_records()
    assert shared.pid != alone.pid


def test_a_task_that_hangs_is_cancelled_with_its_process(start: Start, spark: SparkHost) -> None:
    good, hanging = start(), start()
    good.await_records()
    hanging.await_records()
    hanging.folder.joinpath("trouble").write_text("hang")
    spark.cancel(hanging.spec)
    for task in (good, hanging):
        assert isinstance(task.ends.get(timeout=60), Lost)
    hanging.folder.joinpath("trouble").unlink()
    good.attempt(2)
    hanging.attempt(2)
    for task in (good, hanging):
        task.await_records()
    assert good.pid != hanging.pid, "it does not take others with it again"


def test_at_the_workers_end_all_commit_and_end(
    broker: Broker, unique: Callable[[str], str], tmp_path: Path, spark: SparkHost
) -> None:
    tasks = [Task(spark, Connection(broker.bootstrap), unique("end"), tmp_path / str(n), Numbers) for n in range(2)]
    for task in tasks:
        task.await_records()
    os.kill(tasks[0].pid, signal.SIGTERM)
    for task in tasks:
        end = task.ends.get(timeout=60)
        assert isinstance(end, Outcome)
        assert end.trace is None
        assert not end.left_open
        task.stage.close()


class Published:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, type_: str, connector: str, **fields: object) -> None:
        self.lines.append((connector, str(fields["message"])))


def test_a_line_belongs_to_the_task_whose_thread_or_threads_thread_has_logged_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # as it is now, at the end of the test
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    inherit_contexts()
    published, logs = Published(), SharedLogs()
    logs.install()
    publishers = {
        name: LogPublisher(published, name, redact=hiding({"password": f"secret of {name}"})) for name in ("a", "b")
    }
    redacted: list[str] = []

    def work(name: str) -> None:
        with logs.publishing(publishers[name]):
            log.info("%s has the secret of %s", name, name)
            inner = threading.Thread(target=lambda: log.info("a thread of %s: secret of %s", name, name))
            inner.start()
            inner.join()
            redacted.append(redact_for_task(f"secret of {name}"))

    try:
        workers = [threading.Thread(target=work, args=(name,)) for name in publishers]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        log.warning("nobody's")
    finally:
        logging.getLogger().setLevel(logging.WARNING)
    assert sorted(published.lines) == [
        ("a", f"a has the {HIDDEN}"),
        ("a", f"a thread of a: {HIDDEN}"),
        ("b", f"a thread of b: {HIDDEN}"),
        ("b", f"b has the {HIDDEN}"),
    ]
    assert redacted == [HIDDEN, HIDDEN]
    assert redact_for_task("secret of a") == "secret of a"


def test_the_level_of_one_task_is_not_that_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    published, logs = Published(), SharedLogs()
    logs.install()
    loud, quiet = LogPublisher(published, "loud"), LogPublisher(published, "quiet")
    try:
        with logs.publishing(quiet), logs.publishing(loud):
            loud._set("DEBUG", 0)
            log.debug("said")
            with logs.publishing(quiet):
                log.debug("left out")
                log.info("said, too")
        assert logging.getLogger().level == logging.WARNING, "without tasks, nothing is made to be dropped"
    finally:
        logging.getLogger().setLevel(logging.WARNING)
    assert published.lines == [("loud", "said"), ("quiet", "said, too")]


def test_a_process_that_never_connects_loses_what_waits_for_it() -> None:
    ended, lost = threading.Event(), queue.Queue[str]()

    def run_job(path: str) -> None:
        ended.wait(30)
        raise RuntimeError("no room for it")

    process = SharedProcess(run_job, ended.set, lambda spec, outcome: None, lambda spec, reason: lost.put(reason))
    spec: Any = SimpleNamespace(dumps=str)
    assert process.submit("one", spec)
    process.cancel()
    assert lost.get(timeout=30) == "no room for it"
    process.join(30)
    assert not process.submit("two", spec)


def test_attempts_are_spread_over_as_many_processes_as_cores() -> None:
    class Full:
        has_ended = False

        def __init__(self) -> None:
            self.keys: list[str] = []

        def __len__(self) -> int:
            return len(self.keys)

        def has(self, key: str) -> bool:
            return key in self.keys

        def submit(self, key: str, spec: object) -> bool:
            self.keys.append(key)
            return True

    made: list[Full] = []

    def start_one() -> Full:
        made.append(Full())
        return made[-1]

    processes = SharedProcesses(start_one, cores=2)  # type: ignore[arg-type]
    for number in range(8):
        processes.submit(str(number), None)  # type: ignore[arg-type]
    assert [len(each) for each in made] == [8]
    for number in range(8, 100):
        processes.submit(str(number), None)  # type: ignore[arg-type]
    assert [len(each) for each in made] == [50, 50]
    processes.submit("100", None)  # type: ignore[arg-type]
    assert [len(each) for each in made] == [50, 50, 1]
    made[0].has_ended = True
    made[0].keys.clear()
    processes.submit("101", None)  # type: ignore[arg-type]
    assert made[0].keys == []


def test_the_setting_is_checked_and_makes_room_for_more_tasks() -> None:
    with pytest.raises(Invalid, match=r"task\.isolation=threads: process or shared"):
        WorkerConfig.from_environment({"CONNECT_TASK_ISOLATION": "threads"})
    with pytest.raises(Invalid, match="on the worker's machine"):
        WorkerConfig.from_environment(
            {"CONNECT_TASK_ISOLATION": "shared", "CONNECT_SPARK_MASTER": "spark://there:7077"}
        )
    gibibyte = 1 << 30
    assert slots_of({}, 24 * gibibyte) < 400
    assert slots_of(SHARED, 24 * gibibyte) == 1000
