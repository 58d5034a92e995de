"""Tasks whose Python environment travels to the Spark cluster as an archive, as docs/deployment.md says."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringfence.engine.spark.driver import SparkHost
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.task.task_spec import Outcome
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.compose import ROOT
from tests.support.spark_cluster import Runs, running_cluster, seen
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def recipe() -> list[list[str]]:
    """The commands of the documentation."""
    text = (ROOT / "docs" / "deployment.md").read_text()
    found = re.search(r"<!-- archive -->\n\n((?:    .*\n)+)", text)
    assert found is not None
    return [shlex.split(line) for line in found[1].splitlines()]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by those commands in a copy of the checkout: building a wheel leaves files behind."""
    root = tmp_path_factory.mktemp("archive")
    for name in ("connectors", "fencing", "platform"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root / name)
    for command in recipe():
        program = {"python3": sys.executable}.get(command[0], str(root / command[0]))
        subprocess.run([program, *command[1:]], cwd=root, check=True, timeout=300)
    return root / "tasks.tar.gz"


@pytest.fixture(scope="module")
def spark(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHost]:
    with running_cluster(tmp_path_factory.mktemp("spark")) as cluster:
        settings = {
            **cluster.settings,
            "spark.driver.host": "127.0.0.1",
            "spark.archives": f"{archive}#tasks",
            "spark.pyspark.python": "./tasks/bin/python",
        }
        host = SparkHost(1, settings)
        try:
            host.warm()
            yield host
        finally:
            host.stop()


def test_a_task_runs_in_the_environment_that_came_along(
    spark: SparkHost, broker: Broker, unique: Callable[[str], str]
) -> None:
    def where(_: int) -> tuple[str, str]:
        from ringfence import fencing

        return sys.prefix, str(fencing.__file__)

    for place in spark._spark.parallelize([0], 1).map(where).collect()[0]:
        assert "/app-" in place, "in the executor's folder"
        assert str(ROOT) not in place
    stage = Stage(Connection(broker.bootstrap), unique("archive"))
    try:
        runs = Runs(stage, spark)
        runs.start(1)
        eventually(lambda: len(seen(stage)) >= 500, 90, "records", pause=0.3)
        stage.configure(runs.config)  # a newer generation: the attempt ends by itself
        assert runs.ends.get(timeout=60) == Outcome("superseded")
        assert seen(stage) == list(range(len(seen(stage)))), "missing or twice"
    finally:
        stage.close()
