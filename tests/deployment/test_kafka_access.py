"""Kafka's logins and permissions of docker-compose.yml, on three real brokers with the file's own settings."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException

from ringfence.connectors.builtin.kafka_source.cluster import Cluster, TopicDefinition
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.engine.platform_topics import ensure_topics
from ringfence.engine.preflight.report import PreflightInput, checks
from ringfence.engine.preflight.subject import Result
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.client_pool import login_refused
from ringfence.fencing.kafka.connection import Connection, connection_of
from ringfence.fencing.kafka.open_transactions import HangingProber
from ringfence.fencing.kafka.permission_probes import Permission, Prober
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_ports
from ringfence.recovery.backup import from_kafka
from ringfence.worker_config import WorkerConfig
from tests.e2e.up import Up
from tests.support.cluster import member, running
from tests.support.compose import ROOT, filled, kafka_properties, services
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.thorough]

SERVICES = services()
ACCESS: Final = (ROOT / "deploy" / "kafka-access.txt").read_text()
LINES: Final = [line for line in ACCESS.splitlines() if line and not line.startswith("#")]
BROKERS: Final = ("kafka-1", "kafka-2", "kafka-3")
USERS: Final = ("admin", "worker", "connectors", "backup")
INTERNAL: Final = ("connect-configs", "connect-status", "connect-events")


@dataclass(frozen=True, slots=True)
class Guarded:
    """Three brokers with the settings of docker-compose.yml, their addresses aside, and the file's worker-1."""

    brokers: Sequence[EmbeddedKafka]
    passwords: Mapping[str, str]
    inner: str
    """The addresses of the listeners for `admin`."""

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers)

    @property
    def settings(self) -> dict[str, str]:
        """The worker's variables; where Spark is, is left out."""
        given: dict[str, str] = SERVICES["worker-1"]["environment"]
        filled_in = {key: filled(value, self.passwords) for key, value in given.items() if key.startswith("CONNECT_")}
        return {
            **{key: value for key, value in filled_in.items() if not key.startswith("CONNECT_SPARK_")},
            "CONNECT_BOOTSTRAP_SERVERS": self.bootstrap,
        }

    def file(self, folder: Path) -> Path:
        """deploy/worker.properties without the lines about Spark."""
        lines = (ROOT / "deploy" / "worker.properties").read_text().splitlines()
        made = folder / "worker.properties"
        made.write_text("\n".join(line for line in lines if not line.startswith("spark.")) + "\n")
        return made

    def worker(self, folder: Path) -> WorkerConfig:
        return WorkerConfig.from_environment({**self.settings, "RINGFENCE_WORKER_CONFIG": str(self.file(folder))})

    def set_up(self, folder: Path, access: str = ACCESS) -> subprocess.CompletedProcess[str]:
        """kafka-setup, with these permissions."""
        file = folder / "access.txt"
        file.write_text(access)
        python, _, _, _ = SERVICES["kafka-setup"]["entrypoint"]
        assert python == "python"
        words = [sys.executable, str(ROOT / "deploy" / "kafka_setup.py"), self.inner, str(file)]
        return subprocess.run(
            words, env={**os.environ, **self.passwords}, capture_output=True, text=True, timeout=60, check=False
        )

    def login(self, user: str, mechanism: str, password: str = "") -> Connection:
        """At the listener for clients."""
        settings = {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password or self.passwords[f"KAFKA_{user.upper()}_PASSWORD"],
        }
        return Connection(self.bootstrap, settings)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    root = tmp_path_factory.mktemp("guarded")
    passwords = {f"KAFKA_{user.upper()}_PASSWORD": secrets.token_hex(32) for user in USERS}
    ports = free_ports(9)
    local = {f"{name}:9092": f"127.0.0.1:{ports.pop()}" for name in BROKERS}
    local |= {
        f"broker-{number}:{port}": f"127.0.0.1:{ports.pop()}" for port, number in product((9091, 9093), (1, 2, 3))
    }

    def here(value: str) -> str:
        for address, one in local.items():
            value = value.replace(address, one)
        return value

    made = []
    for number, name in enumerate(BROKERS, 1):
        own = local[f"{name}:9092"]
        properties = {
            key: here(filled(value, passwords).replace("CLIENT://:9092", f"CLIENT://{own}"))
            for key, value in kafka_properties(SERVICES[name]["environment"]).items()
            if key != "log.dirs"
        }
        properties["controlled.shutdown.enable"] = "true"  # Kafka's default, and not that of the embedded one
        controller = int(local[f"broker-{number}:9093"].rpartition(":")[2])
        made.append(member(root, number, int(own.rpartition(":")[2]), controller, properties))
    with running(made):
        guarded = Guarded(made, passwords, ",".join(local[f"broker-{number}:9091"] for number in (1, 2, 3)))
        done = guarded.set_up(root)
        assert done.returncode == 0, done.stdout + done.stderr
        ensure_topics(guarded.worker(root).connection(), guarded.worker(root), Deadline.after(60))
        yield guarded


def results(config: WorkerConfig, **more: str) -> dict[str, Result]:
    """What preflight says of a connector that fills a topic which is not there yet."""
    settings = {"name": "numbers", "topic": "numbers", "exactly.once.support": "required", **more}
    found = checks(PreflightInput(settings, "supported", True, lambda _: 1, {}), config)
    return {check.name: check.result for check in found}


def test_preflight_finds_nothing_wrong(guarded: Guarded, tmp_path: Path) -> None:
    config = guarded.worker(tmp_path)
    eventually(lambda: set(results(config).values()) == {Result.OK}, 20, lambda: results(config), pause=0.3)
    found = results(config)
    assert {"producer kept out of the config topic", "producer Write TransactionalId"} <= found.keys()
    assert any(name.startswith("worker ") for name in found)


def without(words: str) -> str:
    """The file's text without the line of these words."""
    (line,) = (line for line in LINES if line.split() == words.split())
    return ACCESS.replace(line, "")


@pytest.mark.parametrize(
    "missing,named",
    [
        ("worker allow Write,Describe TransactionalId literal connect-cluster-ringfence", "worker Write"),
        ("worker allow Write,Describe TransactionalId prefixed ringfence-", "admin Write TransactionalId"),
        ("connectors allow Write,Describe TransactionalId prefixed ringfence-", "producer Write TransactionalId"),
        ("connectors allow Write,Create Topic literal *", "producer Write Topic connect-offsets"),
        ("connectors deny Write Topic literal connect-configs", "producer kept out of the config topic"),
        ("worker allow DescribeConfigs Cluster literal kafka-cluster", "transaction timeout"),
        ("worker allow ClusterAction Cluster literal kafka-cluster", "hanging transactions"),
    ],
)
def test_a_missing_line_is_found_and_put_back(guarded: Guarded, tmp_path: Path, missing: str, named: str) -> None:
    """kafka-setup makes it so, in both directions; preflight tells it."""
    assert guarded.set_up(tmp_path, without(missing)).returncode == 0
    config = guarded.worker(tmp_path)
    try:
        eventually(
            lambda: any(one is not Result.OK for name, one in results(config).items() if name.startswith(named)),
            20,
            lambda: results(config),
            pause=0.3,
        )
    finally:
        assert guarded.set_up(tmp_path).returncode == 0
    eventually(lambda: set(results(config).values()) == {Result.OK}, 20, lambda: results(config), pause=0.3)


def test_connectors_may_not_write_what_is_the_platforms(guarded: Guarded, tmp_path: Path) -> None:
    config = guarded.worker(tmp_path)
    producer = connection_of(Role.PRODUCER, config.connection(), config.settings, {})
    with Prober(producer) as prober:
        told = prober.write_topics("ringfence-numbers-0", [*INTERNAL, "connect-offsets"])
        assert {topic for topic, may in told.items() if may is Permission.NO} == set(INTERNAL)
        assert prober.write_ids(["connect-cluster-ringfence"]) == {"connect-cluster-ringfence": Permission.NO}
        assert prober.topic("connect-configs").read is Permission.NO


def test_connectors_may_add_partitions_to_their_topics_only(guarded: Guarded, tmp_path: Path) -> None:
    """KafkaSource does so at the target, where its source has got more."""
    config = guarded.worker(tmp_path)
    connection = connection_of(Role.PRODUCER, config.connection(), config.settings, {})
    cluster = Cluster(connection.librdkafka())  # type: ignore[arg-type]
    cluster.create({"team-grown": TopicDefinition(1, {})}, 1)
    eventually(lambda: "team-grown" in cluster.topics(), 20, "the topic", pause=0.3)
    cluster.grow({"team-grown": 3})
    eventually(lambda: cluster.topics()["team-grown"] == 3, 20, "three partitions", pause=0.3)
    for topic in (*INTERNAL, "connect-offsets"):
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            cluster.grow({topic: 50})


def test_a_backup_is_taken_with_a_login_that_can_only_read_it(guarded: Guarded, tmp_path: Path) -> None:
    config = guarded.worker(tmp_path)
    login = guarded.login("backup", "SCRAM-SHA-512")
    eventually(lambda: not login_refused(login), 20, "the user is there", pause=0.3)
    copy = from_kafka(login, config, Deadline.after(60))
    assert copy.group_id == config.group_id
    with Prober(login) as prober:
        topics = [*INTERNAL, "connect-offsets"]
        assert {prober.topic(topic).write for topic in topics} == {Permission.NO}
        may_read = {topic for topic in topics if prober.topic(topic).read is Permission.YES}
        assert may_read == {"connect-configs", "connect-offsets"}


def test_nobody_gets_in_by_another_way(guarded: Guarded) -> None:
    """Not without a login, not by a wrong one, and not as the super user at the listener that others reach."""
    assert not login_refused(guarded.login("worker", "SCRAM-SHA-512"))
    assert login_refused(guarded.login("worker", "SCRAM-SHA-512", "wrong"), seconds=20)
    assert login_refused(guarded.login("admin", "SCRAM-SHA-512"), seconds=20)
    assert login_refused(guarded.login("admin", "PLAIN"), seconds=20)
    assert login_refused(guarded.login("worker", "PLAIN"), seconds=20)


def test_the_worker_ends_a_hanging_transaction_and_cannot_change_permissions(guarded: Guarded, tmp_path: Path) -> None:
    config = guarded.worker(tmp_path)
    there = connection_of(Role.PRODUCER, config.connection(), config.settings, {})
    producer = Producer(there, "ringfence-open-0")
    producer.init(Deadline.after(30))
    producer.begin()
    producer.produce("open", b"1")
    producer.flush(10)
    try:
        with HangingProber(config.connection()) as prober:
            (found,) = prober.open_on(["open"])
            prober.abort(found)
            eventually(lambda: not prober.open_on(["open"]), 20, "the marker is there")
    finally:
        producer.close()
    told = subprocess.run(
        [sys.executable, "-c", GRANT, guarded.bootstrap],
        env={**os.environ, **guarded.passwords},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "CLUSTER_AUTHORIZATION_FAILED" in told.stdout, told.stdout + told.stderr


GRANT = f"""
import os, sys
sys.path.insert(0, {str(ROOT / "deploy")!r})
import kafka_setup
admin = kafka_setup.AdminClient({{
    "bootstrap.servers": sys.argv[1], "security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "worker", "sasl.password": os.environ["KAFKA_WORKER_PASSWORD"]}})
wanted = kafka_setup.parse("connectors allow Write Topic literal connect-configs")["connectors"]
(future,) = admin.create_acls(wanted).values()
try:
    future.result(30)
except kafka_setup.KafkaException as error:
    print(error.args[0].name())
"""


@pytest.mark.parametrize(
    "line,why",
    [
        ("worker allow Write Topic literal", "line 1"),
        ("worker allow Alterx Topic literal x", "Alterx"),
        ("worker permit Read Topic literal x", "permit"),
        ("stranger allow Read Topic literal x", "KAFKA_STRANGER_PASSWORD"),
    ],
)
def test_a_line_that_cannot_be_meant_changes_nothing(guarded: Guarded, tmp_path: Path, line: str, why: str) -> None:
    told = guarded.set_up(tmp_path, line)
    assert told.returncode == 1
    assert why in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_connector_delivers_with_these_logins_and_without_any_one_broker(guarded: Guarded, tmp_path: Path) -> None:
    """Everything but Spark's cluster: web, a leader, tasks, and records by the weaker login."""
    settings = {**guarded.settings, "RINGFENCE_WORKER_CONFIG": str(guarded.file(tmp_path))}
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    with Up(data, settings=settings) as up:
        body = {"name": "v", "config": {"connector.class": "VerifiableSource", "topic": "delivered", "tasks.max": "1"}}
        up.rest.expect(201, "POST", "/connectors", body)

        def offset() -> int:
            rows = up.rest.expect(200, "GET", "/connectors/v/offsets")["offsets"]
            return max((int(row["offset"]["seqno"]) for row in rows), default=0)

        def await_more(records: int) -> None:
            wanted = offset() + records
            status = "/connectors/v/status"
            eventually(lambda: offset() > wanted, 120, lambda: up.rest.call("GET", status).text, pause=0.5)

        await_more(100)
        for broker in guarded.brokers:
            broker.stop(60)
            await_more(300)
            broker.start()
            await_more(300)
        for role in ("worker-1", "web"):
            assert "AUTHORIZATION_FAILED" not in up.log(role).upper().replace(" ", "_")
