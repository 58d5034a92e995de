"""A real standalone cluster, a master and two workers: tasks spread, and one that is lost is survived exactly once."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.task_spec import Outcome
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.spark_cluster import SECRET, WORKERS, Cluster, Runs, running_cluster, seen
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture(scope="module")
def spark(cluster: Cluster) -> Iterator[SparkHost]:
    host = SparkHost(1, {**cluster.settings, "spark.driver.host": "127.0.0.1", "spark.executor.cores": "2"})
    host.warm()
    yield host
    host.stop()


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("spark"))
    yield made
    made.close()


def test_the_workers_share_the_tasks(cluster: Cluster, spark: SparkHost) -> None:
    def daemon(number: int) -> int:
        time.sleep(0.5)
        return os.getppid()

    jobs = spark._spark.parallelize(range(8), 8).map(daemon)
    assert len(set(jobs.collect())) >= WORKERS
    assert all(cluster.tasks_of(worker) for worker in cluster.workers)


ANOTHER = """
import json, sys
from ringfence.engine.spark.driver import SparkHost
settings = json.load(sys.stdin)
host = SparkHost(1, {**settings, "spark.driver.host": "127.0.0.1", "spark.executor.cores": "2"})
host.warm()
host.stop()
"""


def test_a_second_worker_finds_room_also_after_the_master_was_lost(cluster: Cluster, spark: SparkHost) -> None:
    """Each takes its share only (by Spark's default the first has it all), and the master keeps what it knows."""
    cluster.restart_master()
    spark.warm()
    given = json.dumps(cluster.settings).encode()
    subprocess.run([sys.executable, "-c", ANOTHER], input=given, check=True, timeout=120)


def test_who_does_not_know_the_secret_gets_no_executor_and_it_is_on_no_command_line(
    cluster: Cluster, spark: SparkHost
) -> None:
    given = json.dumps({**cluster.settings, "spark.authenticate.secret": "a guess"}).encode()
    with pytest.raises((subprocess.CalledProcessError, subprocess.TimeoutExpired)):
        subprocess.run([sys.executable, "-c", ANOTHER], input=given, check=True, timeout=60, capture_output=True)
    ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
    lines = [" ".join(one.cmdline()) for one in ours if one.status() != psutil.STATUS_ZOMBIE]
    assert any("spark.deploy.master.Master" in line.replace("org.apache.", "") for line in lines)
    assert not [line for line in lines if SECRET in line]


def test_a_lost_spark_worker_is_survived_exactly_once(cluster: Cluster, spark: SparkHost, stage: Stage) -> None:
    runs = Runs(stage, spark)
    runs.start(1)
    eventually(lambda: len(seen(stage)) >= 500, 60, "records", pause=0.2)
    assert stage.status() is not None
    busy = cluster.busy(stage.connection.bootstrap)
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
