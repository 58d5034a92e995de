"""A platform in which nothing exists only once: three brokers that are controllers, too, two workers, two web processes
behind HAProxy, and PostgreSQL and Redis with a standby each.
"""

import contextlib
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import psutil
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from ringfence.fencing.ids import ConnectorName, TaskId, task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.local.guarded_process import GuardedProcess
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port
from tests.e2e import processes
from tests.e2e.conftest import await_calm
from tests.e2e.rest import Rest
from tests.e2e.up import Up
from tests.support.cluster import REPLICATED, running, three_brokers
from tests.support.postgres_pair import PostgresPair, new_postgres_pair
from tests.support.redis_servers import Sentinels
from tests.support.reverse_proxies import Site, running_proxy
from tests.support.waiting import eventually

TOKEN: Final = "a-token-of-at-least-24-characters"
GROUP: Final = "ringfence"
ROLLING: Final = {"controlled_shutdown_enable": "true"}
"""Brokers as others run them: one that is stopped hands its partitions over first."""
_REDIS_DOWN_MS: Final = 5_000


class OnBrokers(Up):
    """`up` on brokers of a test, any of which may be away."""

    def __init__(self, data: Path, brokers: list[EmbeddedKafka], workers: int, settings: dict[str, str]) -> None:
        self._brokers = ",".join(each.bootstrap for each in brokers)
        super().__init__(data, workers, {"CONNECT_BOOTSTRAP_SERVERS": self._brokers, **settings})

    @property
    def bootstrap(self) -> str:
        return self._brokers


class Cluster:
    """Who leads what among the brokers."""

    def __init__(self, brokers: list[EmbeddedKafka]) -> None:
        self.brokers = brokers
        self._bootstrap = ",".join(each.bootstrap for each in brokers)
        self._admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def number(self, broker: EmbeddedKafka) -> int:
        return int(broker.properties["node.id"])

    def broker(self, number: int) -> EmbeddedKafka:
        return next(each for each in self.brokers if self.number(each) == number)

    def replicas(self) -> dict[tuple[str, int], list[int]]:
        """On which brokers each partition is, its leader among them."""
        topics = self._admin.list_topics(timeout=30).topics
        return {
            (name, number): list(each.replicas)
            for name, topic in topics.items()
            for number, each in topic.partitions.items()
        }

    def leader(self, topic: str, partition: int) -> EmbeddedKafka:
        return self.broker(int(self._admin.list_topics(timeout=30).topics[topic].partitions[partition].leader))

    def task_coordinator(self, connector: str) -> EmbeddedKafka:
        """The broker that keeps the transactions of the connector's first task."""
        name = task_transactional_id(GROUP, TaskId(ConnectorName(connector), 0))
        return self._coordinator("__transaction_state", name)

    def group_coordinator(self) -> EmbeddedKafka:
        """The broker that knows which workers are there."""
        return self._coordinator("__consumer_offsets", GROUP)

    def _coordinator(self, topic: str, name: str) -> EmbeddedKafka:
        partitions = len(self._admin.list_topics(timeout=30).topics[topic].partitions)
        return self.leader(topic, _java_hash(name) % partitions)

    def active_controller(self) -> EmbeddedKafka:
        client = KafkaAdminClient(bootstrap_servers=self._bootstrap.split(","))
        try:
            quorum = client.describe_metadata_quorum()
        finally:
            client.close()
        (partition,) = quorum["topics"][0]["partitions"]
        return self.broker(int(partition["leader_id"]))

    def await_in_sync(self) -> None:
        """Until each replica has everything: one more broker may be taken away."""

        def behind() -> list[str]:
            topics = self._admin.list_topics(timeout=30).topics
            return [
                f"{name}-{number}"
                for name, topic in topics.items()
                for number, each in topic.partitions.items()
                if len(each.isrs) < len(each.replicas)
            ]

        eventually(lambda: not behind(), 120, lambda: f"not in sync: {behind()}", pause=0.3)

    def restart(self, broker: EmbeddedKafka) -> None:
        """Stop it in order, and start it again."""
        broker.stop(60)
        broker.start()
        self.await_in_sync()


def _java_hash(text: str) -> int:
    """As Kafka chooses the partition of a coordinator's topic."""
    found = 0
    for each in text:
        found = (31 * found + ord(each)) & 0xFFFFFFFF
    found = found - (1 << 32) if found >> 31 else found
    return 0 if found == -(1 << 31) else abs(found)


class Webs:
    """The web process of `up`, which starts it again, and another one, which nobody starts again but `start`."""

    def __init__(self, up: Up) -> None:
        self._up = up
        self.port = free_port()
        self._process: GuardedProcess | None = None

    @property
    def ports(self) -> list[int]:
        return [int(self._up.http.rpartition(":")[2]), self.port]

    @property
    def second(self) -> GuardedProcess:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """With the settings of the first one. It may not answer yet."""
        command = [sys.executable, "-m", "ringfence.cli", "web", "--http", f"127.0.0.1:{self.port}"]
        env = psutil.Process(self._up.pid("web")).environ()
        log = self._up.data / "logs" / "web-2.log"
        self._process = GuardedProcess.start("web-2", command, log=log, env=env, cwd=self._up.data)

    def end(self) -> None:
        if self._process is not None:
            self._process.signal(signal.SIGCONT)
            self._process.kill()


class Redundant:
    """`proxy` is where clients come in, and `up.rest` such a client."""

    def __init__(
        self, up: Up, cluster: Cluster, redis: Sentinels, postgres: PostgresPair, webs: Webs, proxy: Site
    ) -> None:
        self.up, self.cluster, self.redis, self.postgres = up, cluster, redis, postgres
        self.webs, self.proxy = webs, proxy

    @property
    def connection(self) -> Connection:
        return self.up.connection

    def leading_worker(self) -> str:
        """The worker that leads, as the API says."""
        return str(self.up.rest.expect(200, "GET", "/api/v1/leader")["leader"])

    def family(self, role: str) -> list[int]:
        """The process of a role, and all that it has started."""
        return processes.tree(self.up.pid(role))


@contextlib.contextmanager
def redundant_platform(root: Path) -> Iterator[Redundant]:
    """Everything runs, and a leader answers."""
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(new_postgres_pair())
        redis = Sentinels(root, _REDIS_DOWN_MS)
        stack.callback(redis.close)
        redis.start()
        brokers = stack.enter_context(running(three_brokers(root, 3, **REPLICATED, **ROLLING)))
        settings = {
            "RINGFENCE_DATABASE_URL": postgres.url,
            "RINGFENCE_TOKEN": TOKEN,
            "RINGFENCE_BEHIND_PROXY": "1",
            **redis.settings,
        }
        up = OnBrokers(root / "platform", brokers, 2, settings)
        stack.callback(up.end)
        up.start()
        webs = Webs(up)
        stack.callback(webs.end)
        webs.start()
        proxy = stack.enter_context(running_proxy("haproxy", root, webs.ports))
        up.rest.close()
        up.rest = Rest(f"https://127.0.0.1:{proxy.port}", client=api_client(proxy))
        eventually(partial(_answers, webs.port), 60, "the second web process answers", pause=0.2)
        await_calm(up)
        yield Redundant(up, Cluster(brokers), redis, postgres, webs, proxy)


def api_client(proxy: Site, seconds: float = 100) -> httpx.Client:
    """A client with every permission. seconds: how long it waits for an answer."""
    client = proxy.client(host="localhost", authorization=f"Bearer {TOKEN}")
    client.timeout = httpx.Timeout(seconds)
    return client


def _answers(port: int) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/health/live", timeout=10).status_code == 200
    return False
