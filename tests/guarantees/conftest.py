"""Brokers for failures: one behind a proxy, one that denies and forgets, and one whose share locks expire soon."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringfence.fencing.kafka.connection import Connection
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.shares import FLOORS, Queue
from tests.guarantees.stage import Stage
from tests.support.broker import Broker, running_kafka
from tests.support.cluster import running, three_brokers
from tests.support.harsh import Harsh, harsh_kafka
from tests.support.proxy import Proxied, proxied_kafka


@pytest.fixture
def connection(broker: Broker) -> Connection:
    """To the broker of all."""
    return Connection(broker.bootstrap)


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    """A connector of its own on the broker of all."""
    made = Stage(Connection(broker.bootstrap), unique("stage"))
    yield made
    made.close()


@pytest.fixture(scope="package")  # not "session": until the run ends, an idle broker takes 1.4 % of a core
def _proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with proxied_kafka(tmp_path_factory.mktemp("proxied")) as made:
        yield made


@pytest.fixture
def proxied(_proxied: Proxied) -> Iterator[Proxied]:
    """One broker for all; traps and connections are gone after each test."""
    yield _proxied
    _proxied.proxy.clear()


@pytest.fixture(scope="package")
def harsh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harsh]:
    """One for all; a test that stops it starts it again."""
    with harsh_kafka(tmp_path_factory.mktemp("harsh")) as made:
        yield made


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """One for all tests of share groups: locks may expire after a second."""
    with running_kafka(tmp_path_factory.mktemp("share"), **FLOORS) as made:
        yield made


@pytest.fixture
def queue(kafka: EmbeddedKafka, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Queue]:
    """A connector that reads a share group, and its input of one partition."""
    made = Queue(Connection(kafka.bootstrap), unique("queue"), tmp_path, partitions=1)
    yield made
    made.close()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[EmbeddedKafka]]:
    """Three brokers for one test, which may kill one of them: two are enough for every write."""
    replicated = {"offsets_topic_replication_factor": "3", "transaction_state_log_replication_factor": "3"}
    made = three_brokers(tmp_path, **replicated, transaction_state_log_min_isr="2", min_insync_replicas="2")
    with running(made):
        yield made
