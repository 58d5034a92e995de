"""From `disabled` over `preparing` to `enabled`, one of two real workers after the other, while records flow."""

from collections.abc import Iterator
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
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port
from ringfence.local.supervisor import PythonRole
from ringfence.local.valkey import EmbeddedValkey
from tests.e2e.checker import Reader, source_offsets
from tests.e2e.rest import Rest
from tests.e2e.up import environment
from tests.support.waiting import eventually

WORKERS = ("worker-1", "worker-2")
TASKS = 2
MODE = "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT"


class Cluster:
    """Web and two workers on a broker of their own; each worker with a mode of its own."""

    def __init__(self, root: Path, broker: EmbeddedKafka, valkey: EmbeddedValkey) -> None:
        self.instance = DataDirectory(root)
        self.instance.root.mkdir(parents=True)
        http = f"127.0.0.1:{free_port()}"
        self._env = complete(
            environment({}),
            self.instance,
            bootstrap=broker.bootstrap,
            embedded_kafka=True,
            redis_url=f"{valkey.url.removesuffix('/0')}/5",
            http=http,
        )
        self.rest = Rest(f"http://{http}")
        self._roles: dict[str, PythonRole] = {}
        migrate(self.instance, self._env)
        self._launch("web", ["web", "--http", http, "--no-login", "same-user"], self._env)

    def _launch(self, name: str, arguments: list[str], env: dict[str, str]) -> None:
        role = PythonRole(name, arguments, self.instance, env, 30)
        role.launch()
        self._roles[name] = role

    def work(self, worker: str, mode: str) -> None:
        """Start this worker in a mode; a running one is ended in order first."""
        self.end(worker)
        self._launch(worker, ["worker", "--id", worker, "--slots", "4"], {**self._env, MODE: mode})

    def end(self, name: str) -> None:
        role = self._roles.pop(name, None)
        process = role.process() if role is not None else None
        if process is not None:
            process.stop(30)

    def close(self) -> None:
        self.rest.close()
        for name in list(self._roles):
            self.end(name)

    def is_healthy(self) -> bool:
        """Whether the web process answers, and a leader behind it."""
        try:
            return self.rest.call("GET", "/health").status_code == 200
        except httpx.TransportError:
            return False

    def page(self) -> str:
        """The page of the workers, as text."""
        answer = self.rest.call("GET", "/ui/workers", headers={"Accept": "text/html"}, follow_redirects=True)
        return answer.text


@pytest.fixture
def cluster(tmp_path: Path, own_broker: EmbeddedKafka, valkey: EmbeddedValkey) -> Iterator[Cluster]:
    with ExitStack() as stack:
        made = Cluster(tmp_path / "cluster", own_broker, valkey)
        stack.callback(made.close)
        for worker in WORKERS:
            made.work(worker, "disabled")
        yield made


def moving(cluster: Cluster, name: str, reader: Reader) -> None:
    """Every task RUNNING, on a worker that lives, and records of each arrive."""

    def running() -> bool:
        tasks = cluster.rest.status(name)["tasks"]
        return [task["state"] for task in tasks] == ["RUNNING"] * TASKS

    eventually(running, 120, lambda: cluster.rest.status(name), pause=0.2)
    reader.read_to_end()
    wanted = {task: len(reader.sequences.get(task, ())) + 20 for task in range(TASKS)}

    def arrived() -> bool:
        reader.poll(0.1)
        return all(len(reader.sequences.get(task, ())) >= count for task, count in wanted.items())

    eventually(arrived, 60, lambda: cluster.rest.status(name))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_disabled_preparing_enabled_with_two_workers(cluster: Cluster, own_broker: EmbeddedKafka) -> None:
    name, connection = "upgraded", Connection(own_broker.bootstrap)
    create_topics(connection, [TopicSpec(name)], Deadline.after(30))
    config = {"connector.class": "VerifiableSource", "topic": name, "tasks.max": str(TASKS), "throughput": "100"}
    eventually(cluster.is_healthy, 120, "a leader", pause=0.3)
    cluster.rest.create(name, config)
    reader = Reader(connection, name)
    try:
        moving(cluster, name, reader)
        refused = cluster.rest.call("PUT", f"/connectors/{name}/config", {**config, "exactly.once.support": "required"})
        assert refused.status_code == 400, refused.text
        for mode in ("preparing", "enabled"):
            cluster.work("worker-2", mode)
            eventually(lambda mode=mode: f">{mode}<" in cluster.page(), 180, cluster.page, pause=0.5)  # type: ignore[misc]
            shown = cluster.page()
            assert ("Not yet preparing: worker-1" if mode == "preparing" else "Not enabled: worker-1") in shown
            moving(cluster, name, reader)
            cluster.work("worker-1", mode)
            eventually(lambda: "Not " not in cluster.page().partition("<main")[2], 180, cluster.page, pause=0.5)
            moving(cluster, name, reader)
        cluster.rest.settled(200, "PUT", f"/connectors/{name}/config", {**config, "exactly.once.support": "required"})
        moving(cluster, name, reader)
        cluster.rest.settled(204, "PUT", f"/connectors/{name}/stop", timeout=120)
        reader.read_to_end()
        offsets = source_offsets(connection, "connect-offsets", name)
        # Each hand-over was in order, so even the modes without transactions have written nothing twice.
        expected = {task: list(range(offsets[task] + 1)) for task in range(TASKS)}
        assert reader.sequences == expected
    finally:
        reader.close()
