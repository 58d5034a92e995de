"""A snapshot by several tasks of the whole platform: shared while there is something to read, then one task streams."""

import json
from collections.abc import Iterator

import psycopg
import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.topic_log import TopicLog
from tests.e2e.up import Up
from tests.support.postgres import LOGICAL, Postgres, new_postgres
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = 60_000
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with new_postgres(LOGICAL) as server:
        yield server


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("snapshot"), workers=1, settings={"CONNECT_EGRESS_ALLOW": "loopback"}) as up:
        yield up


def test_tasks_share_the_rows_and_one_is_left_for_the_changes(alone: Up, postgres: Postgres) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        connection.execute(f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {ROWS}) g".encode())
        connection.execute("ANALYZE t")
        config = {
            "connector.class": "PostgresSource",
            "tasks.max": "3",
            "database.hostname": "127.0.0.1",
            "database.port": str(postgres.port),
            "database.user": "ringfence",
            "database.dbname": "ringfence",
            "topic.prefix": "shop",
            "slot.name": "shop",
            "snapshot.range.rows": "5000",
            "exactly.once.support": "required",
            **{f"{which}.converter": JSON for which in ("key", "value")},
            **{f"{which}.converter.schemas.enable": "false" for which in ("key", "value")},
        }
        alone.rest.create("shop", config)
        assert "transaction.boundary" not in alone.rest.expect(200, "GET", "/connectors/shop")["config"]
        told = [task["config"] for task in alone.rest.expect(200, "GET", "/connectors/shop/tasks")]
        assert {task["transaction.boundary"] for task in told} == {"connector"}
        tasks: set[int] = set()

        def one_streams() -> bool:
            shown = [one["state"] for one in alone.rest.status("shop")["tasks"]]
            tasks.add(len(shown))
            return shown == ["RUNNING"] and 3 in tasks

        eventually(one_streams, 300, lambda: f"{tasks}, {alone.rest.status('shop')}", pause=0.2)
        connection.execute("UPDATE t SET v = 1 WHERE id % 1000 = 0")

        def is_read() -> bool:
            return len(seen(alone)) >= ROWS + ROWS // 1000

        eventually(is_read, 120, lambda: f"{len(seen(alone))} records", pause=2)
    found = seen(alone)
    rows = [key for op, key in found if op == "r"]
    assert sorted(rows) == list(range(1, ROWS + 1))
    assert [key for op, key in found if op != "r"] == list(range(1000, ROWS + 1, 1000))


def seen(alone: Up) -> list[tuple[str, int]]:
    """Operation and key of each record."""
    log = TopicLog(alone.connection, "shop.public.t")
    try:
        records = log.read_to_end(Deadline.after(120))
        return [(json.loads(one.value or b"")["op"], json.loads(one.key or b"")["id"]) for one in records]
    finally:
        log.close()
