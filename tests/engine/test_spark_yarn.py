"""Tasks on a real YARN: an application of ours, its containers, and one of them that is lost."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.task_spec import Outcome
from ringfence.local.guarded_process import GuardedProcess
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.compose import ROOT
from tests.support.spark_cluster import Runs, peers, seen
from tests.support.spark_jvm import end_jvm
from tests.support.waiting import eventually
from tests.support.yarn_cluster import JARS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def yarn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedProcess]:
    """The cluster, and HADOOP_CONF_DIR that leads to it."""
    log, module = tmp_path / "yarn.log", "tests.support.yarn_cluster"
    running = GuardedProcess.start("YARN", [sys.executable, "-m", module, str(tmp_path)], log=log, cwd=ROOT)
    try:
        eventually((tmp_path / "conf" / "core-site.xml").exists, 240, log.read_text, pause=0.2)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
        yield running
    finally:
        running.kill()


@pytest.fixture
def spark(yarn: GuardedProcess) -> Iterator[SparkHost]:
    here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    end_jvm()
    host = SparkHost(1, {"spark.master": "yarn", "spark.yarn.jars": f"local:{JARS}/*", **here})
    host.warm()
    yield host
    host.stop()
    end_jvm()


def container(yarn: GuardedProcess, bootstrap: str) -> psutil.Process:
    """The executor where a task is connected to this broker."""
    (found,) = [
        one
        for one in psutil.Process(yarn.pid).children(recursive=True)
        if one.name() == "java" and "CoarseGrainedExecutor" in " ".join(one.cmdline()) and bootstrap in peers(one.pid)
    ]
    return found


def test_a_lost_container_is_survived_exactly_once(
    yarn: GuardedProcess, spark: SparkHost, broker: Broker, unique: Callable[[str], str]
) -> None:
    def container_id(number: int) -> str:
        return os.environ["CONTAINER_ID"]

    assert all(
        name.startswith("container_") for name in spark._spark.parallelize(range(4), 4).map(container_id).collect()
    )
    stage = Stage(Connection(broker.bootstrap), unique("yarn"))
    try:
        runs = Runs(stage, spark)
        runs.start(1)
        eventually(lambda: len(seen(stage)) >= 500, 120, "records", pause=0.5)
        container(yarn, broker.bootstrap).kill()
        lost = runs.ends.get(timeout=120)
        assert isinstance(lost, Lost), str(lost)
        before = len(seen(stage))
        runs.start(2)  # which ends the transaction that the lost one has left open
        eventually(lambda: len(seen(stage)) >= before + 500, 120, "records of the next attempt", pause=0.5)
        stage.configure(runs.config)  # a newer generation: the attempt ends by itself
        assert runs.ends.get(timeout=60) == Outcome("superseded")
        assert seen(stage) == list(range(len(seen(stage)))), "missing or twice"
    finally:
        stage.close()
