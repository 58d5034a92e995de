"""SparkTableSource as Spark jobs, two tasks side by side: each row once, though processes of executors are killed."""

import queue
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow
import pyarrow.parquet
import pytest

from ringfence.connectors.builtin.spark_table.task import SparkTableSourceTask
from ringfence.connectors.class_names import class_name
from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.fencing.ids import TaskId
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.task.plugin import Outcome
from ringfence.fencing.task.spec import TaskSpec
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.spark_cluster import peers
from tests.support.waiting import eventually

TEXT = "org.apache.kafka.connect.storage.StringConverter"
FILES, ROWS, TASKS = 10, 2000, 2
End = tuple[TaskSpec, Outcome | Lost]


@pytest.fixture
def stage(broker: Broker) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("table"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkHost]:
    host = SparkHost(TASKS)
    host.warm()
    yield host
    host.stop()


class Tasks:
    """Two tasks of one connector, as Spark jobs."""

    def __init__(self, stage: Stage, spark: SparkHost, folder: Path, batch: int) -> None:
        self._stage, self._spark, self._folder = stage, spark, folder
        self.ends: queue.Queue[End] = queue.Queue()
        self._attempt = 0
        self.config = {
            "name": str(stage.connector),
            "connector.class": "SparkTableSource",
            "tasks.max": str(TASKS),
            "url": f"file://{folder}",
            "topic": stage.data,
            "part.rows": "500",
            "batch.size": str(batch),
            "transforms": "n",
            "transforms.n.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
            "transforms.n.field": "n",
            "key.converter": TEXT,
            "value.converter": TEXT,
            "transaction.boundary": "poll",
            "exactly.once.support": "required",
        }
        self._shares = [{**self.config, "table.share": f"{number}/{TASKS}"} for number in range(TASKS)]
        stage.write_generation(self.config, self._shares)
        stage.count()

    def start(self, number: int) -> None:
        self._attempt += 1
        stage, name = self._stage, class_name(SparkTableSourceTask)
        task = TaskId(stage.connector, number)
        share = {**self._shares[number], "task.class": name}
        worker = {
            "offset.flush.interval.ms": "60000",
            "transaction.timeout.ms": "60000",
            "exactly.once.source.support": "enabled",
            "file.roots": str(self._folder),
        }
        placement = stage.place_task(task, self._attempt)
        spec = TaskSpec(stage.connection, stage.group, stage.topics, task, placement, name, self.config, share, worker)
        self._spark.submit(spec, lambda spec, end: self.ends.put((spec, end)))

    def kill_one(self) -> int:
        """SIGKILL the Python process of a task in Spark. Returns the task's number when Spark has told of it."""
        bootstrap = self._stage.connection.bootstrap
        found: list[psutil.Process] = []

        def there() -> bool:
            for one in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    if "daemon" in " ".join(one.cmdline()) and not one.children() and bootstrap in peers(one.pid):
                        found.append(one)
            return bool(found)

        eventually(there, 60, "no process of a task", pause=0.1)
        found[0].kill()
        spec, end = self.ends.get(timeout=60)
        assert isinstance(end, Lost), str(end)
        return spec.task.task

    def end(self) -> None:
        """A newer generation: attempts end by themselves."""
        self._stage.write_generation(self.config, self._shares)
        for _ in range(TASKS):
            assert self.ends.get(timeout=60)[1] == Outcome("superseded")


def _write_table(folder: Path) -> None:
    folder.mkdir()
    for file in range(FILES):
        table = pyarrow.table({"n": [str(n) for n in range(file * ROWS, (file + 1) * ROWS)]})
        pyarrow.parquet.write_table(table, folder / f"part-{file:05}.parquet", row_group_size=250)


@pytest.mark.timeout(240)
def test_each_row_once_while_processes_of_tasks_are_killed(stage: Stage, spark: SparkHost, tmp_path: Path) -> None:
    folder, total = tmp_path / "table", FILES * ROWS
    _write_table(folder)
    tasks = Tasks(stage, spark, folder, batch=30)
    for number in range(TASKS):
        tasks.start(number)
    for least in (1, total // 3):
        eventually(lambda least=least: len(stage.visible()) >= least, 90, "rows", pause=0.05)  # type: ignore[misc]
        tasks.start(tasks.kill_one())
    assert len(stage.visible()) < total, "killed too late: nothing was left to read"
    eventually(lambda: len(stage.visible()) >= total, 90, lambda: str(len(stage.visible())), pause=0.2)
    tasks.end()
    assert sorted(stage.visible()) == list(range(total)), "a row is missing, or there twice"
