"""A plugin that does what its setting `behaviour` says, compiled here, and its tasks. Real JVMs, no Kafka."""

import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ringfence.connectors.api import SourceOffset, SourcePartition
from ringfence.connectors.java import processes, runtime
from ringfence.connectors.java.task import JavaSourceTask, java_task_class
from ringfence.fencing.task.plugin_metrics import Gauges
from ringfence.fencing.task.transaction_context import RequestedEndings
from ringfence.local.cache import cache_root
from ringfence.local.jars import KAFKA_CONNECT, resolve
from ringfence.local.java_host import compiler
from tests.support.java_plugins import runtime_of
from tests.support.shared_jvms import temporary_folder

_SOURCE = Path(__file__).parent / "plugin" / "HostileConnector.java"
_TEXT = "org.apache.kafka.connect.storage.StringConverter"
CLASS = "hostile.HostileConnector"


class Reader:
    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        return None

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return [None for _ in partitions]


class Context:
    offset_reader = Reader()
    raw_batches = True

    def __init__(self, transactions: RequestedEndings | None = None) -> None:
        self.transaction_context = transactions
        self.metrics = Gauges()

    def wait(self, seconds: float) -> bool:
        return False


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("hostile")
    jars = resolve("kafka-connect", KAFKA_CONNECT)
    command = [*compiler(cache_root()), "--release", "17", "-d", str(root / "classes")]
    subprocess.run([*command, "-cp", str(jars / "*"), str(_SOURCE)], check=True)
    folder = root / "plugins"
    folder.mkdir()
    with zipfile.ZipFile(folder / "hostile-7.jar", "w") as archive:
        archive.writestr("META-INF/services/org.apache.kafka.connect.source.SourceConnector", CLASS)
        for each in (root / "classes").rglob("*.class"):
            archive.write(each, each.relative_to(root / "classes"))
    before = list(runtime._current)
    runtime.declare(runtime_of(folder, java_options="-Xmx64m", java_shared_options="-Xmx64m"))
    yield folder
    processes.close()
    runtime._current[:] = before


Start = Callable[..., JavaSourceTask]


@pytest.fixture
def start(plugins: Path) -> Iterator[Start]:
    started: list[JavaSourceTask] = []

    def start_(behaviour: str, transactions: RequestedEndings | None = None, **more: str) -> JavaSourceTask:
        task = java_task_class("hostile.HostileConnector$HostileTask")()
        started.append(task)
        task.context = Context(transactions)  # type: ignore[assignment]
        settings = {name.replace("_", "."): value for name, value in more.items()}
        converters = {"key.converter": _TEXT, "value.converter": _TEXT}
        config = {"name": "h", "connector.class": CLASS, "behaviour": behaviour, **converters, **settings}
        task.start(config)
        return task

    yield start_
    for task in started:
        task.stop()


@pytest.fixture
def shared_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of this test's shared JVMs, which end with it."""
    with temporary_folder() as folder:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        yield folder
