"""A running Kafka Connect cluster with Debezium moves to Ringfence and back, in place, while rows are written.

Both have the same plugin, group.id and topics. Each side is stopped once, and once it is killed.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from benchmarks.rest import Rest
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import group_members
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.change_topic import ChangeTopic, is_exact
from tests.support.debezium_stage import Writer, debezium_settings, orders_postgres
from tests.support.java_plugins import DEBEZIUM, plugin_path
from tests.support.kafka_connect_moves import SHARED, Moved, Ringfence
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

NAME = "orders"
PREFIX = "moved"
TOPIC = f"{PREFIX}.public.orders"


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with orders_postgres() as server:
        yield server


def count_streamed(topic: ChangeTopic) -> int:
    """Behind the snapshot: an interrupted one begins again, on either side."""
    return sum(body["op"] != "r" for body in topic.bodies())


def stream(topic: ChangeTopic) -> None:
    """Returns when whoever runs the connector has committed a few hundred changes."""
    enough = count_streamed(topic) + 400
    eventually(lambda: count_streamed(topic) >= enough, 180, lambda: f"{count_streamed(topic)} of {enough}", pause=0.5)


@pytest.fixture
def writer(postgres: Postgres) -> Iterator[Writer]:
    made = Writer(postgres.url)
    yield made
    made.stop()


def kill(up: Ringfence) -> None:
    """SIGKILL to all of it."""
    root = psutil.Process(up.lock_holder)
    everybody = [root, *root.children(recursive=True)]
    for process in everybody:
        with contextlib.suppress(psutil.NoSuchProcess):  # those that watch another end with it
            process.kill()
    up.kill()
    psutil.wait_procs(everybody, 30)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_there_and_back_each_change_arrives_once(
    own_broker: EmbeddedKafka, postgres: Postgres, writer: Writer, tmp_path: Path
) -> None:
    connection = Connection(own_broker.bootstrap)
    topic = ChangeTopic(connection, TOPIC)
    settings = {f"CONNECT_{key.upper().replace('.', '_')}": value for key, value in SHARED.items()}
    settings |= {"CONNECT_BOOTSTRAP_SERVERS": own_broker.bootstrap, "CONNECT_EVENTS_STORAGE_REPLICATION_FACTOR": "1"}
    settings |= {"CONNECT_PLUGIN_PATH": str(plugin_path(tmp_path, DEBEZIUM))}
    up = Ringfence(tmp_path / "ringfence", 1, settings)
    connect = Moved(tmp_path / "connect", own_broker.bootstrap, (DEBEZIUM,))

    def in_kafka_connect() -> None:
        with Rest(connect.url) as rest:
            eventually(lambda: rest.running(NAME) == 1, 120, lambda: rest.trouble(NAME), pause=0.5)
        stream(topic)

    def in_ringfence() -> None:
        with Rest(f"http://{up.http}") as rest:
            eventually(lambda: rest.running(NAME) == 1, 120, lambda: rest.trouble(NAME), pause=0.5)
        stream(topic)

    try:
        connect.start()
        with Rest(connect.url) as rest:
            rest.create(NAME, debezium_settings(postgres, PREFIX))
        in_kafka_connect()
        psutil.Process(connect.pid).kill()
        connect.stop()

        up.start()
        in_ringfence()
        kill(up)
        # Kafka Connect gives up if it meets a member of the other kind; a killed one leaves with its session.
        eventually(lambda: not group_members(connection, SHARED["group.id"], Deadline.after(10)), 120, "an empty group")

        connect.start()
        in_kafka_connect()
        connect.stop()

        up.start()
        in_ringfence()
        writer.stop()
        with psycopg.connect(postgres.url) as database:
            rows: dict[int, int] = dict(database.execute("select id, n from orders").fetchall())
        eventually(lambda: topic.holds(rows), 120, "the last change", pause=0.5)
        assert up.stop() == 0
        seen = topic.rows()
        print(f"{len(rows)} rows, {sum(each.total() for each in seen.values())} records")
        assert seen.keys() == rows.keys()
        wrong = {row: seen[row] for row, newest in rows.items() if not is_exact(seen[row], newest)}
        assert wrong == {}, "a change is missing, or there twice"
    finally:
        up.end()
        connect.stop()
