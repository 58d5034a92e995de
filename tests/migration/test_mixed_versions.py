"""The last release beside this version, on one cluster and one database: forward and back again, while records flow."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.data_directory import DataDirectory
from ringfence.local.database import migrate
from ringfence.local.environment import complete
from ringfence.local.guarded_process import GuardedProcess
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port
from ringfence.local.valkey import EmbeddedValkey
from tests.e2e.checker import Reader, source_offsets
from tests.e2e.rest import Rest
from tests.e2e.up import environment
from tests.support.waiting import eventually
from tests.wheel.installed import ROOT, install_platform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

LAST = "0.3.0"
TASKS = 2
TOKEN = "only-for-the-tests-of-mixed-versions"
NAME = "mixed"
CONFIG = {"connector.class": "VerifiableSource", "topic": NAME, "tasks.max": str(TASKS), "throughput": "100"}


@pytest.fixture(scope="module")
def last_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel of the last release, built from its commit."""
    commit = released(LAST)

    def use_commit(source: Path) -> None:
        shutil.rmtree(source)
        source.mkdir()
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x"], cwd=source, input=archive, check=True)

    return install_platform(tmp_path_factory.mktemp("release"), use_commit)


def released(version: str) -> str:
    """The commit that the release's tag marks. In a clone without tags: the one that wrote its changelog."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.split() if done.returncode == 0 else []

    tagged = git("rev-parse", "--verify", "--quiet", f"v{version}^{{commit}}")
    commits = tagged or git("log", "--format=%H", "--reverse", f"-S## {version} - ", "--", "CHANGELOG.md")
    if not commits:
        pytest.skip(f"this clone does not go back to release {version}")
    return commits[0]


class Cluster:
    """Two web processes and two workers, each of the last release or of this version."""

    def __init__(self, root: Path, broker: EmbeddedKafka, valkey: EmbeddedValkey, last: Path) -> None:
        self._pythons = {"last": str(last), "this": sys.executable}
        self.instance = DataDirectory(root)
        self.instance.root.mkdir(parents=True)
        self._webs = {version: f"127.0.0.1:{free_port()}" for version in self._pythons}
        self._env = complete(
            environment({}),
            self.instance,
            bootstrap=broker.bootstrap,
            embedded_kafka=True,
            redis_url=f"{valkey.url.removesuffix('/0')}/6",
            http=self._webs["last"],
        )
        self._running: dict[str, GuardedProcess] = {}
        migrate(self.instance, self._env)  # as in an upgrade: the tables come first
        self.rests: Mapping[str, Rest] = {
            version: Rest(f"http://{http}", TOKEN) for version, http in self._webs.items()
        }
        for version, http in self._webs.items():
            env = {**self._env, "RINGFENCE_HTTP": http, "RINGFENCE_TOKEN": TOKEN}
            self._launch(f"web-{version}", version, ["web", "--http", http], env)

    def _launch(self, name: str, version: str, arguments: list[str], env: Mapping[str, str]) -> None:
        self._running[name] = GuardedProcess.start(
            name,
            [self._pythons[version], "-m", "ringfence.cli", *arguments],
            log=self.instance.log(name),
            env=env,
            cwd=self.instance.root,
            pid_file=self.instance.pid_file(name),
        )

    def work(self, worker: str, version: str) -> None:
        """Replace this worker, in order."""
        self._end(worker)
        self._launch(worker, version, ["worker", "--id", worker, "--slots", "4"], self._env)

    def _end(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is not None:
            process.stop(60)

    def close(self) -> None:
        for rest in self.rests.values():
            rest.close()
        for name in list(self._running):
            self._end(name)

    def is_healthy(self) -> bool:
        try:
            return all(rest.call("GET", "/health").status_code == 200 for rest in self.rests.values())
        except httpx.TransportError:
            return False


@pytest.fixture
def cluster(tmp_path: Path, own_broker: EmbeddedKafka, valkey: EmbeddedValkey, last_release: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        made = Cluster(tmp_path / "cluster", own_broker, valkey, last_release)
        stack.callback(made.close)
        for worker in ("worker-1", "worker-2"):
            made.work(worker, "last")
        yield made


def moving(cluster: Cluster, reader: Reader) -> None:
    """Every task RUNNING, by both web processes, and records of each arrive."""

    def running() -> bool:
        assert cluster.is_healthy()
        states = [[task["state"] for task in rest.status(NAME)["tasks"]] for rest in cluster.rests.values()]
        return states == [["RUNNING"] * TASKS] * 2

    eventually(running, 180, lambda: [rest.status(NAME) for rest in cluster.rests.values()], pause=0.3)
    reader.read_to_end()
    wanted = {task: len(reader.sequences.get(task, ())) + 20 for task in range(TASKS)}

    def arrived() -> bool:
        reader.poll(0.1)
        return all(len(reader.sequences.get(task, ())) >= count for task, count in wanted.items())

    eventually(arrived, 120, lambda: {task: len(each) for task, each in reader.sequences.items()})


def change(cluster: Cluster, version: str, number: int) -> None:
    """Change the connector through the web process of a version, so that all tasks are fenced and start again."""
    cluster.rests[version].settled(
        200, "PUT", f"/connectors/{NAME}/config", {**CONFIG, "offset.flush.timeout.ms": str(4000 + number)}, timeout=120
    )


def test_forward_and_back_under_load(cluster: Cluster, own_broker: EmbeddedKafka) -> None:
    connection = Connection(own_broker.bootstrap)
    create_topics(connection, [TopicSpec(NAME)], Deadline.after(30))
    eventually(cluster.is_healthy, 240, "a leader", pause=0.5)
    cluster.rests["last"].create(NAME, CONFIG)
    reader = Reader(connection, NAME)
    numbers = iter(range(100))
    try:
        moving(cluster, reader)
        # The web processes come last, and go back first: a newer one may send fields that an older leader refuses.
        for worker, version, webs in (
            ("worker-1", "this", ("last",)),
            ("worker-2", "this", ("last", "this")),
            ("worker-1", "last", ("last",)),
            ("worker-2", "last", ("last",)),
        ):
            cluster.work(worker, version)
            moving(cluster, reader)
            for through in webs:
                change(cluster, through, next(numbers))
                moving(cluster, reader)
            print(worker, version, {task: len(each) for task, each in reader.sequences.items()})
        cluster.rests["last"].settled(204, "PUT", f"/connectors/{NAME}/stop", timeout=120)
        reader.read_to_end()
        offsets = source_offsets(connection, "connect-offsets", NAME)
        expected = {task: list(range(offsets[task] + 1)) for task in range(TASKS)}
        assert reader.sequences == expected, "none is missing, and none there twice"
    finally:
        reader.close()
