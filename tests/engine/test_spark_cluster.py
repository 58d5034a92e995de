"""A real standalone cluster, a master and two workers: tasks spread, and one that is lost is survived exactly once."""

import os
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from fencing.clock import Deadline
from fencing.kafka.settings import Connection
from fencing.task_plugin import Outcome
from fencing.task_spec import TaskSpec
from fencing.topic_log import TopicLog
from ringfence.engine.spark_host import Lost, SparkHost
from ringfence.local.java import find_java
from ringfence.local.process import Leashed, free_port
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

WORKERS = 2


class Cluster:
    """Master and workers, as `sbin/start-master.sh` and the like start them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._home = Path(pyspark.__file__).parent
        self.port = free_port()
        self.master = self._java("master", "master.Master", "--port", str(self.port))
        self.workers = [
            self._java(f"worker-{number}", "worker.Worker", self.url, "--cores", "4", "--memory", "1g")
            for number in range(WORKERS)
        ]

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def _java(self, name: str, main: str, *arguments: str) -> Leashed:
        command = [str(find_java()), "-Xmx256m", "-cp", f"{self._home}/jars/*", f"org.apache.spark.deploy.{main}"]
        command += ["--host", "127.0.0.1", "--webui-port", str(free_port()), *arguments]
        work = self._root / name
        work.mkdir()
        env = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "SPARK_SCALA_VERSION": "2.13",  # Spark looks for it in folders that only its own build has
            "SPARK_WORKER_DIR": str(work),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return Leashed.start(name, command, log=self._root / f"{name}.log", env=env, cwd=work)

    def await_workers(self) -> None:
        log = self._root / "master.log"
        eventually(lambda: log.read_text().count("Registering worker") == WORKERS, 150, "the registered workers")

    def tasks_of(self, worker: Leashed) -> list[psutil.Process]:
        """The Python processes of its executors: those of tasks, and the daemons that they were forked from."""
        family = psutil.Process(worker.pid).children(recursive=True)
        return [one for one in family if "spark_daemon" in " ".join(one.cmdline())]

    def stop(self) -> None:
        for one in (*self.workers, self.master):
            one.stop(grace=10)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("spark"))
    try:
        made.await_workers()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def spark(cluster: Cluster) -> Iterator[SparkHost]:
    host = SparkHost(4, {"spark.master": cluster.url, "spark.driver.host": "127.0.0.1", "spark.executor.cores": "2"})
    host.warm()
    yield host
    host.stop()


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("spark"))
    yield made
    made.close()


def seen(stage: Stage) -> list[int]:
    log = TopicLog(stage.connection, stage.data)
    try:
        return [int(record.value or b"-1") for record in log.read_to_end(Deadline.after(60))]
    finally:
        log.close()


class Runs:
    """Attempts of the one task on the cluster."""

    def __init__(self, stage: Stage, spark: SparkHost) -> None:
        self._stage, self._spark = stage, spark
        self.config = {"name": "numbers", "topic": stage.data, "throughput": "500", "id": "0"}
        self.ends: queue.Queue[Outcome | Lost] = queue.Queue()
        stage.configure(self.config)
        stage.count()

    def start(self, attempt: int) -> TaskSpec:
        stage = self._stage
        spec = TaskSpec(
            stage.connection,
            stage.group,
            stage.topics,
            stage.task,
            stage.place(attempt),
            "connectors.builtin.verifiable.task.VerifiableSourceTask",
            self.config,
            self.config,
            {"offset.flush.interval.ms": "60000", "transaction.timeout.ms": "60000"},
        )
        self._spark.submit(spec, lambda spec, end: self.ends.put(end))
        return spec


def test_the_workers_share_the_tasks(cluster: Cluster, spark: SparkHost) -> None:
    def daemon(number: int) -> int:
        time.sleep(0.5)
        return os.getppid()

    jobs = spark._spark.parallelize(range(8), 8).map(daemon)
    assert len(set(jobs.collect())) >= WORKERS
    assert all(cluster.tasks_of(worker) for worker in cluster.workers)


def test_a_lost_spark_worker_is_survived_exactly_once(cluster: Cluster, spark: SparkHost, stage: Stage) -> None:
    runs = Runs(stage, spark)
    runs.start(1)
    eventually(lambda: len(seen(stage)) >= 500, 60, "records", pause=0.2)
    status = stage.status()
    assert status is not None
    (busy,) = [
        worker
        for worker in cluster.workers
        if any(stage.connection.bootstrap in _peers(one) for one in cluster.tasks_of(worker))
    ]
    family = psutil.Process(busy.pid).children(recursive=True)
    for process in (psutil.Process(busy.pid), *family):
        process.kill()
    lost = runs.ends.get(timeout=120)
    assert isinstance(lost, Lost), str(lost)
    runs.start(2)  # which ends the transaction that the lost one has left open
    eventually(lambda: len(seen(stage)) >= 2000, 90, "records of the next attempt", pause=0.2)
    stage.configure(runs.config)  # a newer generation: the attempt ends by itself
    assert runs.ends.get(timeout=60) == Outcome("superseded")
    assert seen(stage) == list(range(len(seen(stage)))), "missing or twice"


def _peers(process: psutil.Process) -> set[str]:
    try:
        found = process.net_connections(kind="tcp")
    except psutil.Error:
        return set()
    return {f"{one.raddr[0]}:{one.raddr[1]}" for one in found if one.status == psutil.CONN_ESTABLISHED}
