"""Debezium's snapshot, interrupted: as one transaction it leaves no row twice. The control shows what it does without.

Python and the JVM are killed in the midst of it, while somebody writes.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ringfence.connectors.java import processes, runtime
from ringfence.connectors.java.connector import java_connector_class
from ringfence.connectors.java.discovery import find_plugins
from tests.guarantees.change_topic import ChangeTopic, check_wrong, is_exact
from tests.guarantees.stage import Stage
from tests.support.attempts import JavaAttempt
from tests.support.debezium_stage import Writer, config_of, orders_postgres
from tests.support.java_plugins import DEBEZIUM, DEBEZIUM_TASK, plugin_path, runtime_of, settings_of
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROWS = 60_000  # so many that a kill comes in time
SLOT = "select active from pg_replication_slots where slot_name = 'orders'"


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with orders_postgres() as server:
        yield server


class WriterAnywhere(Writer):
    """Inserts a row, and changes an old one anywhere in the table."""

    pause = 0.005
    number = 0

    def change(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self.number += 1
        connection.execute("insert into orders(customer) values ('live')")
        connection.execute("update orders set n = n + 1 where id = %s", (self.number * 7919 % ROWS + 1,))


@pytest.fixture
def writer(postgres: Postgres) -> Iterator[Writer]:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        (there,) = connection.execute("select count(*) from orders").fetchone() or (0,)
        more = "insert into orders(customer) select repeat('c', 300) from generate_series(%s::int, %s)"
        connection.execute(more, (there + 1, ROWS))
    made = WriterAnywhere(postgres.url)
    yield made
    made.stop()


@pytest.mark.parametrize("exact", [True, False], ids=["one transaction", "control"])
def test_an_interrupted_snapshot(stage: Stage, postgres: Postgres, writer: Writer, tmp_path: Path, exact: bool) -> None:
    worker = settings_of(runtime_of(plugin_path(tmp_path, DEBEZIUM)))
    config = {**config_of(stage, postgres), "max.batch.size": "256", "max.queue.size": "512"}
    if exact:
        config |= {"snapshot.transaction": "true", "snapshot.transaction.drop.slot": "true"}
    stage.configure(config)
    stage.count()
    topic = ChangeTopic(stage.connection, f"{stage.group}.public.orders")
    attempts: list[JavaAttempt] = []

    def start() -> JavaAttempt:
        attempts.append(JavaAttempt(stage, len(attempts) + 1, config, DEBEZIUM_TASK, worker))
        return attempts[-1]

    try:
        for kill in ("java", "python", "java"):
            enough = topic.end() + 1000
            running = start()
            eventually(partial(topic.reaches, enough), 120, lambda: attempts[-1].log, pause=0.02)
            if kill == "java":
                assert "ended by signal 9" in running.kill_java()["trace"]
            else:
                running.kill_python()
            if exact:
                assert topic.is_empty(), "half a snapshot is visible"
        last = start()
        eventually(lambda: len(topic.rows()) > ROWS, 180, lambda: last.log, pause=1)
        writer.stop()
        with psycopg.connect(postgres.url) as connection:
            rows: dict[int, int] = dict(connection.execute("select id, n from orders").fetchall())
        eventually(lambda: topic.holds(rows), 120, lambda: last.log, pause=1)
        assert last.stop()["trace"] is None
        seen = topic.rows()
        assert seen.keys() == rows.keys()
        wrong = {row: seen[row] for row, newest in rows.items() if not is_exact(seen[row], newest)}
        print(f"{len(rows)} rows, {sum(each.total() for each in seen.values())} records, wrong: {len(wrong)}")
        check_wrong(wrong, exact=exact)
    finally:
        topic.close()
        for each in attempts:
            each.close()


def test_an_old_slot_is_told_and_the_task_does_not_start(stage: Stage, postgres: Postgres, tmp_path: Path) -> None:
    folder = plugin_path(tmp_path, DEBEZIUM)
    java = runtime_of(folder)
    config = {**config_of(stage, postgres), "snapshot.transaction": "true"}
    before = list(runtime._current)
    runtime.declare(java)
    try:
        (plugin,) = [each for each in find_plugins([str(folder)]) if each.class_name == config["connector.class"]]
        connector = java_connector_class(plugin)()
        assert connector.find_slot(config) == ""
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute("select pg_create_logical_replication_slot('orders', 'pgoutput')")
        assert connector.find_slot(config) == "orders"
        assert connector.find_slot({**config, "snapshot.mode": "no_data"}) is None
    finally:
        processes.close()
        runtime._current[:] = before
    stage.configure(config)
    stage.count()
    attempt = JavaAttempt(stage, 1, config, DEBEZIUM_TASK, settings_of(java))
    try:
        assert "set snapshot.transaction.drop.slot=true" in attempt.outcome()["trace"]
        with psycopg.connect(postgres.url) as connection:
            assert connection.execute(SLOT).fetchall() == [(False,)], "it is not ours to drop"
    finally:
        attempt.close()
