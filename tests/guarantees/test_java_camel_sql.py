"""Tables by Apache Camel's SQL component, from Maven Central: a JDBC source under a free licence.

Camel's source offsets do not say where to go on. Without `onConsume` each poll reads all rows again, and nothing may be
lost.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.jars import Coordinate, resolve
from tests.guarantees.stage import Stage
from tests.guarantees.test_java_camel import TEXT, install
from tests.support.attempts import JavaAttempt
from tests.support.broker import Broker
from tests.support.java_plugins import CAMEL_CLASS, CAMEL_TASK, runtime_of
from tests.support.names import unique
from tests.support.postgres import Postgres, new_postgres
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
JARS = (
    Coordinate("org.apache.camel.kafkaconnector", "camel-kafka-connector", "0.11.0"),
    Coordinate("org.apache.camel", "camel-sql", "3.11.1"),
    Coordinate("org.postgresql", "postgresql", "42.7.7"),
)
ROWS = 200


@pytest.fixture
def stage(broker: Broker) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("camelsql"))
    yield made
    made.close()


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with new_postgres() as made:
        yield made


def read(stage: Stage) -> Counter[str]:
    """How often a read_committed reader sees each row, such as `{id=7}`."""
    log = TopicLog(stage.connection, stage.data)
    try:
        return Counter((record.value or b"").decode() for record in log.read_to_end(Deadline.after(60)))
    finally:
        log.close()


def insert(server: Postgres, numbers: range) -> set[str]:
    """What their records are."""
    with psycopg.connect(server.url, autocommit=True) as database:
        database.cursor().executemany("insert into orders values (%s, false)", [(number,) for number in numbers])
    return {f"{{id={number}}}" for number in numbers}


def config_of(stage: Stage, postgres: Postgres, query: str) -> dict[str, str]:
    with psycopg.connect(postgres.url, autocommit=True) as database:
        database.execute("create table orders(id int primary key, done bool)")
    return {
        "name": str(stage.connector),
        "connector.class": CAMEL_CLASS,
        "tasks.max": "1",
        "topics": stage.data,
        "camel.source.url": f"sql:{query}&dataSource=#bean:ds&initialDelay=100&delay=500",
        "camel.beans.ds": "#class:org.postgresql.ds.PGSimpleDataSource",
        "camel.beans.ds.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/ringfence",
        "camel.beans.ds.user": "ringfence",
        "camel.beans.ds.password": "none",
        "camel.source.maxPollDuration": "200",
        "key.converter": TEXT,
        "value.converter": TEXT,
        "transaction.boundary": "poll",
    }


def test_no_row_is_lost(stage: Stage, postgres: Postgres, tmp_path: Path) -> None:
    worker = runtime_of(install(tmp_path / "plugins", resolve("camel-sql", JARS))).as_settings()
    config = config_of(stage, postgres, "select id from orders order by id?useIterator=true")
    stage.configure(config)
    stage.count()
    attempts: list[JavaAttempt] = []

    def start() -> JavaAttempt:
        attempts.append(JavaAttempt(stage, len(attempts) + 1, config, CAMEL_TASK, worker))
        return attempts[-1]

    def reached(rows: set[str], number: int) -> bool:
        if not attempts[-1].running:
            pytest.fail(f"The task has ended: {attempts[-1].outcome()['trace']}")
        return len(rows & read(stage).keys()) >= number

    written: set[str] = set()
    try:
        for turn, kill in enumerate(("java", "python")):
            running = start()
            new = insert(postgres, range(turn * ROWS, (turn + 1) * ROWS))
            written |= new
            eventually(partial(reached, new, 1), 120, lambda: attempts[-1].log, pause=0.02)
            if kill == "java":
                assert "ended by signal 9" in running.kill_java()["trace"]
            else:
                running.kill_python()
        last = start()
        eventually(partial(reached, written, 2 * ROWS), 120, lambda: last.log, pause=0.2)
        assert last.stop()["trace"] is None
        found = read(stage)
        print(f"{len(found)} rows, {found.total()} records")
        assert found.keys() == written
    finally:
        for each in attempts:
            each.close()
