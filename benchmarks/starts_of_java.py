"""How soon a Java task is ready, and its CPU and memory until then: the task alone, without Kafka."""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import psutil

from benchmarks.connect import STRING_CONVERTER
from benchmarks.processes import MIB, memory_of
from ringfence.connectors.api import SourceOffset, SourcePartition, SourceTaskContext
from ringfence.connectors.java import runtime
from ringfence.connectors.java.task import JavaSourceTask, java_task_class
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.local.java_connectors import java_runtime
from tests.support.postgres import Postgres
from tests.support.shared_jvms import running_jvms

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Start:
    """seconds: until the connector's `start` has returned. cpu_s, mib: of the JVM at that time."""

    name: str
    seconds: float
    cpu_s: float
    mib: float


@dataclass(frozen=True, slots=True)
class Memories:
    """PSS of the JVMs of so many tasks that have started: with a JVM each, and with one for all."""

    name: str
    tasks: int
    own_mib: float
    shared_mib: float


@dataclass(frozen=True, slots=True)
class Task:
    """The task to start."""

    name: str
    task_class: str
    config: Mapping[str, str]


class NothingCommitted:
    """The context that a task uses in `start`."""

    raw_batches = True
    transaction_context = None

    @property
    def offset_reader(self) -> "NothingCommitted":
        return self

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        return None

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return [None for _ in partitions]

    def wait(self, seconds: float) -> bool:
        return False


def file_stream(root: Path, name: str = "starts") -> Task:
    """Return the smallest available connector."""
    file = root / "empty"
    file.touch()
    worker_limits.declare(WorkerLimits((str(root),)))  # otherwise connectors must not read files here
    package = "org.apache.kafka.connect.file"
    config = {
        "name": name,
        "connector.class": f"{package}.FileStreamSourceConnector",
        "file": str(file),
        "topic": "starts",
        "key.converter": STRING_CONVERTER,
        "value.converter": STRING_CONVERTER,
    }
    return Task("FileStreamSource", f"{package}.FileStreamSourceTask", config)


def debezium(
    config_of: Callable[[Postgres, str, str, str], dict[str, str]], postgres: Postgres, name: str = "starts"
) -> Task:
    """Return Debezium's connector for PostgreSQL, on a table that does not exist."""
    config = {"name": name, **config_of(postgres, name, "public.none", "no_data")}
    config["publication.autocreate.mode"] = "all_tables"
    return Task("Debezium", "io.debezium.connector.postgresql.PostgresConnectorTask", config)


def measure(task: Task, plugins: Path) -> Start:
    """Return the medians of some starts, after an unmeasured one."""
    java = java_runtime({"plugin.path": str(plugins)})
    runtime.declare(java)
    starts = [_start(task) for _ in range(ROUNDS + 1)][1:]
    return Start(task.name, *(statistics.median(each[column] for each in starts) for column in range(3)))


def measure_many(tasks: Sequence[Task]) -> Memories:
    """Start these tasks, which wait for their source, with a JVM each and then with a shared one. After `measure`."""
    own, shared = (_memory_of_all(tasks, process) for process in ("own", "shared"))
    return Memories(tasks[0].name, len(tasks), own, shared)


def _memory_of_all(tasks: Sequence[Task], process: str) -> float:
    instances = [_instance_of(task) for task in tasks]
    try:
        for task, instance in zip(tasks, instances, strict=True):
            instance.start({**task.config, "java.process": process})
        return sum(memory_of(jvm.pid).pss for jvm in _jvms()) / MIB
    finally:
        for instance in instances:
            instance.stop()
        for jvm in running_jvms(Path(tempfile.gettempdir())):
            jvm.kill()


def _start(task: Task) -> tuple[float, float, float]:
    instance = _instance_of(task)
    began = time.monotonic()
    try:
        instance.start(task.config)
        seconds = time.monotonic() - began
        (jvm,) = _jvms()
        cpu = jvm.cpu_times()
        return seconds, cpu.user + cpu.system, memory_of(jvm.pid).rss / MIB
    finally:
        instance.stop()


def _instance_of(task: Task) -> JavaSourceTask:
    instance = java_task_class(task.task_class)()
    instance.context = cast("SourceTaskContext", NothingCommitted())
    return instance


def _jvms() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.name() == "java"]
