"""Tasks of SparkTableSource as Spark jobs, and processes of theirs that are killed."""

import queue
from collections.abc import Callable, Mapping
from contextlib import suppress

import psutil

from ringfence.connectors.builtin.spark_table.task import SparkTableSourceTask
from ringfence.connectors.class_names import class_name
from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.fencing.ids import TaskId
from ringfence.fencing.task.task_spec import Outcome, TaskSpec
from tests.guarantees.stage import Stage
from tests.support.names import unique
from tests.support.postgres import Postgres
from tests.support.spark_cluster import peers
from tests.support.waiting import eventually

TEXT = "org.apache.kafka.connect.storage.StringConverter"
End = tuple[TaskSpec, Outcome | Lost]


class Tasks:
    """The tasks of one connector, as Spark jobs."""

    def __init__(
        self,
        stage: Stage,
        spark: SparkHost,
        table: Mapping[str, str],
        worker: Mapping[str, str],
        batch: int,
        count: int = 2,
    ) -> None:
        """table: the connector's settings of its own; worker: settings of the worker."""
        self._stage, self._spark = stage, spark
        self._worker = {
            "offset.flush.interval.ms": "60000",
            "transaction.timeout.ms": "60000",
            "exactly.once.source.support": "enabled",
            **worker,
        }
        self.ends: queue.Queue[End] = queue.Queue()
        self._attempt = 0
        self.config = {
            "name": str(stage.connector),
            "connector.class": "SparkTableSource",
            "tasks.max": str(count),
            **table,
            "topic": stage.data,
            "batch.size": str(batch),
            "transforms": "n",
            "transforms.n.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
            "transforms.n.field": "n",
            "key.converter": TEXT,
            "value.converter": TEXT,
            "transaction.boundary": "poll",
        }
        self._shares = [{**self.config, "table.share": f"{number}/{count}"} for number in range(count)]
        stage.write_generation(self.config, self._shares)
        stage.count()

    def start(self, number: int) -> TaskSpec:
        self._attempt += 1
        stage, name = self._stage, class_name(SparkTableSourceTask)
        task = TaskId(stage.connector, number)
        share = {**self._shares[number], "task.class": name}
        placement = stage.place_task(task, self._attempt)
        spec = TaskSpec(
            stage.connection, stage.group, stage.topics, task, placement, name, self.config, share, self._worker
        )
        self.submit(spec)
        return spec

    def submit(self, spec: TaskSpec) -> None:
        self._spark.submit(spec, lambda spec, end: self.ends.put((spec, end)))

    def start_all(self) -> None:
        for number in range(len(self._shares)):
            self.start(number)

    def kill_one(self) -> int:
        """SIGKILL the Python process of a task in Spark. Returns the task's number when Spark has told of it.

        Spark keeps processes of earlier tests, still with connections, which end without a word. They are idle, so the
        busiest is killed; if it was one of them all the same, then the next one.
        """
        while True:
            self._busiest().kill()
            with suppress(queue.Empty):
                spec, end = self.ends.get(timeout=60)
                assert isinstance(end, Lost), str(end)
                return spec.task.task

    def _busiest(self) -> psutil.Process:
        bootstrap = self._stage.connection.bootstrap
        used: dict[psutil.Process, float] = {}
        busiest: list[psutil.Process] = []

        def found() -> bool:
            most = 0.0
            for one in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    if "daemon" in " ".join(one.cmdline()) and not one.children() and bootstrap in peers(one.pid):
                        seconds = sum(one.cpu_times()[:2])
                        if seconds - used.get(one, seconds) > most:
                            most, busiest[:] = seconds - used[one], [one]
                        used[one] = seconds
            return bool(busiest)

        eventually(found, 60, "no process of a task works", pause=0.1)
        return busiest[0]

    def end(self) -> None:
        """A newer generation: attempts end by themselves."""
        self._stage.write_generation(self.config, self._shares)
        for _ in self._shares:
            assert self.ends.get(timeout=60)[1] == Outcome("superseded")

    def read_under_kills(self, total: int, kills: int = 2, meanwhile: Callable[[], None] = lambda: None) -> list[int]:
        """Start all, kill processes in the first two thirds, and return all rows, sorted.

        meanwhile: called when the first rows are there.
        """
        stage = self._stage
        self.start_all()
        for number in range(kills):
            least = 1 + number * total * 2 // 3 // kills
            eventually(lambda least=least: len(stage.visible()) >= least, 90, "rows", pause=0.05)  # type: ignore[misc]
            if number == 0:
                meanwhile()
            self.start(self.kill_one())
        return self.read_rest(total)

    def read_rest(self, total: int) -> list[int]:
        """Wait for all rows, and return them, sorted."""
        stage = self._stage
        assert len(stage.visible()) < total, "killed too late: nothing was left to read"
        eventually(lambda: len(set(stage.visible())) >= total, 120, lambda: str(len(stage.visible())), pause=0.2)
        self.end()
        return sorted(stage.visible())


def fill(server: Postgres, rows: int) -> dict[str, str]:
    """Settings of a table whose dividing column has each value for some rows, which were written in another order."""
    name = unique("flights").replace("-", "_")
    server.query(f"CREATE TABLE {name} (day int NOT NULL, id int PRIMARY KEY, n text NOT NULL)")
    server.query(f"INSERT INTO {name} SELECT (g * 7919) % 1000, g, g::text FROM generate_series(0, {rows - 1}) g")
    server.query(f"CREATE INDEX ON {name} (day, id)")
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/ringfence"
    parts = {"partitionColumn": "day", "numPartitions": "250"}
    return {"url": url, "dbtable": name, "user": "ringfence", **parts}
