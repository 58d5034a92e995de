"""A streaming query under Spark, killed again and again: the sink's rows are there once, those of Spark's own twice."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.kafka.topic_offsets import end_offsets
from ringfence.fencing.topics.topic_log import Isolation, TopicLog
from ringfence.local.jars import Coordinate, resolve
from ringfence.local.java import find_java
from ringfence.local.ports import free_port
from tests.spark.query import STEPS
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
SECONDS = 400.0
ROWS = 600
# Older than PySpark may be: Maven Central does not have each of its versions at once.
SPARKS_OWN = Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0")


class Query:
    """One checkpoint and topic, and the program that is started on it again and again."""

    def __init__(self, broker: Broker, root: Path, **settings: Any) -> None:
        self.topic = unique("query")
        self.connection = Connection(broker.bootstrap)
        create_topics(self.connection, [TopicSpec(self.topic, 2)], Deadline.after(60))
        self._root = root
        self.marks = root / "marks"
        self.marks.mkdir()
        self.settings = {
            "bootstrap": broker.bootstrap,
            "topic": self.topic,
            "log": f"{self.topic}-log",
            "checkpoint": str(root / "checkpoint"),
            "progress": str(root / "progress"),
            "marks": str(self.marks),
            "rows": ROWS,
            "parts": 3,
            "sink": "ringfence",
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **more: Any) -> None:
        with (self._root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.query", json.dumps(self.settings | more)],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )

    def kill(self) -> None:
        """Driver, JVM and what they have started."""
        if self.process is not None:
            children = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            self.process.wait()
            self.process = None

    def await_death(self) -> None:
        assert self.process is not None
        code = self.process.wait(SECONDS)
        assert code == -signal.SIGKILL, self.log
        self.process = None

    def wait(self, done: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log
            return done()

        eventually(look, SECONDS, lambda: f"{what}\n{self.log}", pause=0.1)

    @property
    def log(self) -> str:
        """Its end, for messages."""
        return (self._root / "log").read_text()[-6000:]

    def says(self, words: str) -> bool:
        return words in (self._root / "log").read_text()

    @property
    def batch(self) -> int:
        """The last one that is complete, -1 before the first."""
        path = Path(self.settings["progress"])
        return int(path.read_text() or "-1") if path.exists() else -1

    def slow_tasks(self) -> list[Path]:
        """In the order in which they began; each is named by its process id."""
        return sorted(self.marks.iterdir(), key=lambda mark: int(mark.name.partition("-")[2]))

    def records(self) -> int:
        """In the topic, whether they count or not."""
        return sum(end_offsets(self.connection, self.topic, [0, 1], Deadline.after(30)).values())

    def visible(self) -> Counter[int]:
        log = TopicLog(self.connection, self.topic, isolation=Isolation.COMMITTED)
        try:
            records = list(log.catch_up(Deadline.after(60)))
            records += log.ahead
            for record in records:
                number = int(record.value or b"")
                assert record.key == record.value
                assert record.partition == number % 2
                assert list(record.headers) == [("parity", str(number % 2).encode())]
            return Counter(int(record.value or b"") for record in records)
        finally:
            log.close()

    def check(self, batches: int) -> None:
        """Each number of the first batches is there, and none is there twice."""
        seen = self.visible()
        missing = [n for n in range(batches * ROWS) if n not in seen]
        twice = [n for n, count in seen.items() if count > 1]
        assert (missing[:5], twice[:5]) == ([], []), f"{len(missing)} missing, {len(twice)} twice\n{self.log}"


def test_driver_killed_between_every_two_steps(broker: Broker, tmp_path: Path) -> None:
    query = Query(broker, tmp_path)
    try:
        for batch, step in enumerate(STEPS, start=1):
            query.start(die_at=step, batch=batch)
            query.await_death()
        query.start()
        query.wait(lambda: query.batch >= len(STEPS) + 1, "batches after the last kill")
        query.kill()
        query.check(len(STEPS) + 1)
    finally:
        query.kill()


@pytest.mark.parametrize("sink", ["ringfence", "spark"])
def test_driver_killed_while_rows_are_written(broker: Broker, tmp_path: Path, sink: str) -> None:
    """The same for both sinks: killed whenever some rows of a batch have reached the broker."""
    jars = {"spark.jars": own_jars()} if sink == "spark" else {}
    query = Query(broker, tmp_path, sink=sink, slow=0.5, conf=jars)
    try:
        for _ in range(2):
            before = query.records()
            query.start()
            query.wait(lambda before=before: query.records() > before, "rows of a batch")  # type: ignore[misc]
            query.kill()
        before = len(query.visible())
        query.start(slow=0)
        query.wait(lambda: len(query.visible()) >= before + 2 * ROWS, "batches after the last kill")
        done = query.batch
        query.kill()
        if sink == "ringfence":
            assert done >= 0
            query.check(done + 1)
        else:
            assert any(count > 1 for count in query.visible().values()), "the control shows nothing"
    finally:
        query.kill()


def test_table_is_written_once(broker: Broker, tmp_path: Path) -> None:
    """A program that writes a table as one batch, killed behind the decision, and run twice more."""
    table = tmp_path / "table"
    table.mkdir()
    for part in range(4):
        numbers = pa.array(range(part * ROWS, (part + 1) * ROWS), pa.int64())
        pq.write_table(pa.table({"value": numbers}), table / f"{part}.parquet")
    query = Query(broker, tmp_path, table=str(table))
    try:
        query.start(die_at="first part committed", batch=0)
        query.await_death()
        for _ in range(2):
            query.start()
            assert query.process is not None
            assert query.process.wait(SECONDS) == 0, query.log
            query.check(4)
        assert sum(query.visible().values()) == 4 * ROWS
    finally:
        query.kill()


def own_jars() -> str:
    """Of Spark's own Kafka sink, without what Spark brings itself."""
    own = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
    folder = resolve("spark-sql-kafka", [SPARKS_OWN])
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")) if jar.name.startswith(own))


class Cluster:
    """A master and two workers, on hosts of their own: Spark starts no second copy of a task on the same host."""

    def __init__(self, root: Path) -> None:
        self._home = Path(pyspark.__file__).parent
        self._root = root
        self._processes: list[subprocess.Popen[bytes]] = []
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start("Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()))
        for host in ("127.0.0.2", "127.0.0.3"):
            words = ("--host", host, "--cores", "2", "--memory", "1g", "--webui-port", str(free_port()))
            self._start("Worker", *words, "--work-dir", str(root / host), self.url)

    def _start(self, role: str, *words: str) -> None:
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}", *words]
        env = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "JAVA_HOME": str(find_java().resolve().parents[1]),
        }
        env.pop("SPARK_LOCAL_IP", None)
        with (self._root / f"{role}-{len(self._processes)}.log").open("wb") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=env))

    def kill_executor(self, worker: int) -> bool:
        """The one that runs this Python worker. False where it is gone already."""
        with suppress(psutil.NoSuchProcess):
            for parent in psutil.Process(worker).parents():
                if any("CoarseGrainedExecutorBackend" in word for word in parent.cmdline()):
                    parent.kill()
                    return True
        return False

    def stop(self) -> None:
        for process in self._processes:
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            for one in [psutil.Process(process.pid)] * (process.poll() is None) + children:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    root = tmp_path / "cluster"
    root.mkdir()
    made = Cluster(root)
    yield made
    made.stop()


def test_executors_killed_and_tasks_run_twice(broker: Broker, tmp_path: Path, cluster: Cluster) -> None:
    """Speculation starts a second copy of each batch's slow task, and two executors are killed in the middle of it."""
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.minTaskRuntime": "200ms",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.excludeOnFailure.enabled": "false",
    }
    query = Query(broker, tmp_path, master=cluster.url, conf=conf, slow=1.0)
    try:
        query.start()
        killed: list[int] = []
        for _ in range(2):
            at, before, seen = query.batch, query.records(), set(query.slow_tasks())

            def kill(before: int = before, seen: set[Path] = seen) -> bool:
                new = [mark for mark in query.slow_tasks() if mark not in seen and query.records() > before]
                worker = int(new[-1].name.partition("-")[0]) if new else 0
                done = bool(worker) and cluster.kill_executor(worker)
                killed.extend([worker] * done)
                return done

            query.wait(kill, "a slow task")
            query.wait(lambda at=at: query.batch > at, "the batch in spite of that")  # type: ignore[misc]
        assert len(killed) == 2
        query.wait(lambda: query.batch >= 4, "more batches")
        done = query.batch
        query.kill()
        query.check(done + 1)
        assert query.says("unused attempts"), f"no task ran twice: {query.log}"
    finally:
        query.kill()
