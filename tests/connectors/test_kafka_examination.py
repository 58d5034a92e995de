"""A test of the connection to a Kafka cluster says what is wrong, or which topics there are.

On a real broker that asks for a login and denies what is not granted.
"""

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ringfence.connectors.api import Examination
from ringfence.connectors.builtin.kafka_source import connector
from ringfence.connectors.builtin.kafka_source.cluster import Cluster, target_settings
from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.connectors.builtin.share_group.connector import ShareGroupSourceConnector
from ringfence.connectors.plugins import PluginRegistry
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.engine.plugins.validation import validate
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.worker_config import WorkerConfig
from tests.support.broker import login
from tests.support.guarded_broker import ALLOW, DESCRIBE, READ, TOPIC, USERS, grant, guarded_worker
from tests.support.waiting import eventually

BOTH = pytest.mark.parametrize("connector", [KafkaSourceConnector, ShareGroupSourceConnector])
SECURITY = "source.cluster.security.protocol"
SERVERS = "source.cluster.bootstrap.servers"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerConfig]:
    with guarded_worker(tmp_path_factory.mktemp("guarded")) as made:
        create_topics(made.connection(), [TopicSpec("orders", 3), TopicSpec("returns", 1)], Deadline.after(30))
        settings = {name: str(value) for name, value in made.connection().librdkafka().items()}
        eventually(lambda: {"orders", "returns"} <= Cluster(settings).topics().keys(), 30, "the topics are there")
        yield made


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits(egress="loopback"))
    yield
    worker_limits.declare(former)


def of_user(worker: WorkerConfig, user: str, password: str = "", **more: str) -> dict[str, str]:
    return {
        SERVERS: worker.connection().bootstrap,
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.username": user,
        "source.cluster.sasl.password": password or user,
        **more,
    }


def examine(config: dict[str, str], connector: Any = KafkaSourceConnector) -> Examination:
    made: Examination = connector().examine(config)
    return made


def complain(config: dict[str, str], setting: str) -> str:
    """The one error, which stands at this setting."""
    made = examine(config)
    assert made.summary == ""
    assert made.proposals == {}
    ((name, (text,)),) = made.errors.items()
    assert name == setting
    return text


@BOTH
def test_topics_are_listed_with_their_partitions(worker: WorkerConfig, connector: Any) -> None:
    every = examine(of_user(worker, "root"), connector)
    assert every.summary.startswith("7 topics: ")
    made = examine(of_user(worker, "root", **{"topics.exclude": "[^or].*,offsets"}), connector)
    assert made.errors == {}
    assert made.summary == "2 topics: orders (3 partitions), returns (1 partition)."
    assert made.proposals == {}, "there are several"
    only = examine(of_user(worker, "root", topics="ord.*"), connector)
    assert only.summary == "1 topic: orders (3 partitions)."


def test_the_only_topic_is_proposed(worker: WorkerConfig) -> None:
    grant(worker, USERS[0], (TOPIC, "returns", READ, ALLOW))
    made = examine(of_user(worker, USERS[0]))
    assert made.summary == "1 topic: returns (1 partition)."
    assert made.proposals == {"topics": "returns"}


@BOTH
def test_a_form_offers_the_topics_before_one_is_chosen(worker: WorkerConfig, connector: Any) -> None:
    config = {**of_user(worker, "root"), "name": "c", "connector.class": connector.__name__}
    worker_limits.declare(WorkerLimits(egress="loopback", home=worker.connection().bootstrap))
    config |= {
        name.replace("source.", "target."): value for name, value in config.items() if "sasl" in name or "sec" in name
    }
    answer: dict[str, Any] = validate(PluginRegistry.discover(), connector.__name__, config, exactly_once=True)
    values = {each["value"]["name"]: each["value"] for each in answer["configs"]}
    assert {name for name, each in values.items() if each["errors"]} == {"topics"}
    assert {"orders", "returns"} <= set(values["topics"]["recommended_values"])
    assert answer["choice_notes"]["topics"]["orders"] == "3 partitions"


def test_an_address_without_a_broker_is_said_at_once(worker: WorkerConfig) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        text = complain({SERVERS: where}, SERVERS)
    assert time.monotonic() - began < connector._SECONDS, "it does not wait for another answer"
    assert text.startswith(f"Nothing listens at {where}: the connection is refused.")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # which accepts nothing
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        assert complain({SERVERS: where}, SERVERS).startswith(f"No answer from {where}.")
    unknown = complain({SERVERS: "no-such-host.invalid:9092"}, SERVERS)
    assert unknown.startswith("The name of no-such-host.invalid:9092 is not known here.")
    assert complain({}, SERVERS).startswith("Say where the cluster is")
    assert "not allowed" in complain({SERVERS: "192.0.2.1:9092"}, SERVERS)


def test_a_login_that_is_wrong_or_missing_is_told_apart(worker: WorkerConfig) -> None:
    wrong = complain(of_user(worker, USERS[1], "guess"), "source.cluster.sasl.username")
    assert wrong.startswith(f"The login is refused by {worker.connection().bootstrap}.")
    assert "guess" not in wrong
    missing = complain({SERVERS: worker.connection().bootstrap}, SECURITY)
    assert "expects encryption or a login" in missing
    encrypted = {SERVERS: worker.connection().bootstrap, SECURITY: "SSL"}
    assert "expects encryption or a login, or has none where one is set" in complain(encrypted, SECURITY)


def test_a_login_in_the_form_of_java_is_a_login(worker: WorkerConfig) -> None:
    config = of_user(worker, "root", topics="orders")
    del config["source.cluster.sasl.username"], config["source.cluster.sasl.password"]
    assert examine({**config, "source.cluster.sasl.jaas.config": login("root")}).errors == {}


def test_a_permission_that_is_missing_names_the_topic(worker: WorkerConfig) -> None:
    user = USERS[2]
    assert "no topic that this login sees" in complain(of_user(worker, user), "topics")
    assert "may not see topic orders" in complain(of_user(worker, user, topics="orders"), "topics")
    grant(worker, user, (TOPIC, "orders", DESCRIBE, ALLOW))
    seen = complain(of_user(worker, user, topics="orders"), "topics")
    assert "sees, but may not read" in seen
    assert "--operation Read" in seen
    grant(worker, user, (TOPIC, "orders", READ, ALLOW))
    assert examine(of_user(worker, user, topics="orders")).summary == "1 topic: orders (3 partitions)."


def test_a_topic_that_is_not_read_says_why(worker: WorkerConfig) -> None:
    assert "has no topic nowhere" in complain(of_user(worker, "root", topics="nowhere"), "topics")
    assert "matches x.*" in complain(of_user(worker, "root", topics="x.*"), "topics")
    excluded = of_user(worker, "root", topics="orders", **{"topics.exclude": "ord.*"})
    assert "orders is not read" in complain(excluded, "topics")
    assert "regular expression" in complain(of_user(worker, "root", topics="(("), "topics")


def test_the_target_is_the_workers_cluster_unless_it_is_set() -> None:
    own = "producer.override.bootstrap.servers"
    assert "target.cluster.bootstrap.servers" in target_settings({}).errors
    worker_limits.declare(WorkerLimits(egress="loopback", home="127.0.0.1:9092"))
    assert target_settings({}).settings["bootstrap.servers"] == "127.0.0.1:9092"
    assert target_settings({own: "127.0.0.1:7"}).settings["bootstrap.servers"] == "127.0.0.1:7"
    both = {own: "127.0.0.1:7", "target.cluster.bootstrap.servers": "127.0.0.1:8"}
    assert target_settings(both).settings["bootstrap.servers"] == "127.0.0.1:8"
    assert "not allowed" in target_settings({own: "192.0.2.1:7"}).errors["target.cluster.bootstrap.servers"]
