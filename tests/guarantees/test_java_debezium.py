"""Debezium's PostgreSQL connector, as Maven Central has it, against a real server: every row and every change once.

Python and the JVM are killed while it streams.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from tests.guarantees.stage import Stage
from tests.support.attempts import JavaAttempt
from tests.support.debezium_stage import SNAPSHOT_ROWS, Writer, config_of, orders_postgres
from tests.support.java_plugins import DEBEZIUM, DEBEZIUM_TASK, plugin_path, runtime_of, settings_of
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with orders_postgres() as server:
        yield server


def changes(stage: Stage, topic: str) -> Counter[tuple[int, str, int]]:
    """How often a read_committed reader sees each change: row, operation, value afterwards."""
    found: Counter[tuple[int, str, int]] = Counter()
    log = TopicLog(stage.connection, topic)
    try:
        for record in log.read_to_end(Deadline.after(60)):
            if record.value:
                body = json.loads(record.value)
                found[(body["after"]["id"], body["op"], body["after"]["n"])] += 1
    finally:
        log.close()
    return found


def test_every_row_and_every_change_once(stage: Stage, postgres: Postgres, tmp_path: Path) -> None:
    worker = settings_of(runtime_of(plugin_path(tmp_path, DEBEZIUM)))
    topic = f"{stage.group}.public.orders"
    create_topics(stage.connection, [TopicSpec(topic)], Deadline.after(30))
    config = config_of(stage, postgres)
    stage.configure(config)
    stage.count()
    attempts = [JavaAttempt(stage, 1, config, DEBEZIUM_TASK, worker)]
    writer: Writer | None = None

    def seen(number: int) -> bool:
        return len(changes(stage, topic)) >= number

    try:
        eventually(lambda: len(changes(stage, topic)) == SNAPSHOT_ROWS, 120, lambda: attempts[-1].log, pause=0.5)
        writer = Writer(postgres.url)
        for number, kill in enumerate(("java", "python", "java", "python"), 2):
            enough = len(changes(stage, topic)) + random.randint(50, 400)
            eventually(partial(seen, enough), 120, lambda: attempts[-1].log, pause=0.2)
            if kill == "java":
                assert "ended by signal 9" in attempts[-1].kill_java()["trace"]
            else:
                attempts[-1].kill_python()
            attempts.append(JavaAttempt(stage, number, config, DEBEZIUM_TASK, worker))
        writer.stop()
        with psycopg.connect(postgres.url) as connection:
            rows = connection.execute("select id, n from orders").fetchall()
        wanted = {(row, "r" if row <= SNAPSHOT_ROWS else "c", 0) for row, _ in rows}
        wanted |= {(row, "u", n) for row, n in rows if n}
        eventually(lambda: changes(stage, topic).keys() >= wanted, 120, lambda: attempts[-1].log, pause=0.5)
        assert attempts[-1].stop()["trace"] is None
        assert changes(stage, topic) == Counter(dict.fromkeys(wanted, 1)), "a change is missing, or there twice"
    finally:
        if writer is not None:
            writer.stop()
        for each in attempts:
            each.close()
