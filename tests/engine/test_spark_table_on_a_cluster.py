"""SparkTableSource on a standalone cluster: hundreds of parts over four tasks, and an executor's JVM is killed."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.fencing.kafka.connection import Connection
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.postgres import Postgres, new_postgres
from tests.support.spark_cluster import Cluster, peers, running_cluster
from tests.support.spark_tables import Tasks, fill
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TASKS, ROWS = 4, 60_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture(scope="module")
def spark(cluster: Cluster) -> Iterator[SparkHost]:
    settings = {**cluster.settings, "spark.driver.host": "127.0.0.1", "spark.executor.cores": "2"}
    host = SparkHost(TASKS, settings)
    host.warm()
    yield host
    host.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with new_postgres() as made:
        yield made


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("table"))
    yield made
    made.close()


def test_each_row_once_though_the_jvm_of_an_executor_is_killed(
    cluster: Cluster, stage: Stage, spark: SparkHost, server: Postgres
) -> None:
    table = {**fill(server, ROWS), "exactly.once.support": "required"}
    running = Tasks(stage, spark, table, {"egress.allow": "loopback"}, batch=30, count=TASKS)
    bootstrap = stage.connection.bootstrap
    running.start_all()

    def busy() -> list[tuple[psutil.Process, int]]:
        """Executors, and how many tasks of theirs are connected to the broker."""
        executors = [
            one
            for worker in cluster.workers
            for one in psutil.Process(worker.pid).children(recursive=True)
            if "CoarseGrainedExecutorBackend" in _command(one)
        ]
        found = [(one, sum(_is_task(each, bootstrap) for each in one.children(recursive=True))) for one in executors]
        return [pair for pair in found if pair[1]]

    eventually(lambda: sum(count for _, count in busy()) == TASKS, 120, "tasks on the executors", pause=0.2)
    eventually(lambda: len(stage.visible()) >= ROWS // 20, 90, "rows", pause=0.05)
    (executor, count), *_ = busy()
    executor.kill()
    lost = [running.ends.get(timeout=120) for _ in range(count)]
    assert all(isinstance(end, Lost) for _, end in lost), str(lost)
    for spec, _ in lost:
        running.start(spec.task.task)
    assert running.read_rest(ROWS) == list(range(ROWS)), "a row is missing, or there twice"


def _is_task(process: psutil.Process, bootstrap: str) -> bool:
    with suppress(psutil.Error):
        return "daemon" in _command(process) and not process.children() and bootstrap in peers(process.pid)
    return False


def _command(process: psutil.Process) -> str:
    """ "" where it has ended."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
