"""Executors as Spark on Kubernetes starts them: its requests, answered by a small stand-in that runs our command."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringfence.commands.executor import command_of, spark_home
from ringfence.engine.spark.driver import Lost, SparkHost
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.task_spec import Outcome
from ringfence.local.errors import LocalError
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.compose import OURS
from tests.support.kubernetes import Kubernetes
from tests.support.spark_cluster import Runs, peers, seen
from tests.support.waiting import eventually

PODS_ENVIRONMENT = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@w1:4000",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "pod-7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    **{f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in (10, 2, 0)},
}


def test_the_command_is_what_the_pod_says() -> None:
    words = command_of(PODS_ENVIRONMENT, Path("/java"), Path("/spark"))
    assert words[:6] == ["/java", "-Dn=0", "-Dn=2", "-Dn=10", "-Xms512m", "-Xmx512m"]
    assert words[7] == "/opt/spark/conf:/spark/jars/*"
    assert words[words.index("--executor-id") + 1] == "7"
    assert words[words.index("--hostname") + 1] == "10.0.0.7"
    assert (spark_home() / "jars").is_dir()


def test_outside_of_a_pod_it_says_so() -> None:
    without = {name: value for name, value in PODS_ENVIRONMENT.items() if name != "SPARK_DRIVER_URL"}
    with pytest.raises(LocalError, match=r"SPARK_DRIVER_URL is set\. Run a worker"):
        command_of(without, Path("/java"), Path("/spark"))


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Kubernetes]:
    made = Kubernetes(tmp_path, OURS)
    yield made
    made.close()


@pytest.fixture
def spark(kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkHost]:
    monkeypatch.setenv("KUBECONFIG", "/dev/null")
    settings = {
        "spark.master": kubernetes.master,
        "spark.driver.host": "127.0.0.1",
        "spark.kubernetes.container.image": OURS,
        "spark.kubernetes.executor.enableApiWatcher": "false",  # the stand-in has none, and is asked again instead
        "spark.kubernetes.executor.apiPollingInterval": "1s",
    }
    host = SparkHost(1, settings)
    host.warm()
    yield host
    host.stop()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_lost_executor_is_replaced_and_its_task_goes_on_exactly_once(
    kubernetes: Kubernetes, spark: SparkHost, broker: Broker, unique: Callable[[str], str]
) -> None:
    stage = Stage(Connection(broker.bootstrap), unique("k8s"))
    try:
        runs = Runs(stage, spark)
        runs.start(1)
        eventually(lambda: len(seen(stage)) >= 500, 90, "records", pause=0.3)
        before = set(kubernetes.processes)
        assert len(before) == 2, "as many executors as the slots need"
        (busy,) = [one for one in kubernetes.processes.values() if broker.bootstrap in peers(one.pid)]
        busy.kill()
        lost = runs.ends.get(timeout=120)
        assert isinstance(lost, Lost), str(lost)
        runs.start(2)  # which ends the transaction that the lost one has left open
        eventually(lambda: len(seen(stage)) >= 1500, 90, "records of the next attempt", pause=0.3)
        eventually(lambda: set(kubernetes.processes) - before, 90, "another executor", pause=0.3)
        stage.configure(runs.config)  # a newer generation: the attempt ends by itself
        assert runs.ends.get(timeout=60) == Outcome("superseded")
        assert seen(stage) == list(range(len(seen(stage)))), "missing or twice"
    finally:
        stage.close()
