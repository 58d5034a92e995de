"""Tables by Apache Camel's SQL component, from Maven Central: a JDBC source under a free licence.

Camel keeps no place in the source, and its `onConsume` marks a row before the row's record is committed: a kill loses
such rows. So a reader of the topic confirms what it has seen, and the query asks for the rows that nobody has
confirmed. Then no row may be lost, and none may come twice but those that were not confirmed when something was killed.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.jars import Coordinate, resolve
from tests.guarantees.stage import Stage
from tests.support.attempts import JavaAttempt
from tests.support.camel import TEXT, install
from tests.support.java_plugins import CAMEL_CLASS, CAMEL_TASK, runtime_of, settings_of
from tests.support.postgres import Postgres, new_postgres
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
JARS = (
    Coordinate("org.apache.camel.kafkaconnector", "camel-kafka-connector", "0.11.0"),
    Coordinate("org.apache.camel", "camel-sql", "3.11.1"),
    Coordinate("org.postgresql", "postgresql", "42.7.7"),
)
KILLS = ("java", "python") * 4
ROWS_A_TURN = 25
"""At least so many are delivered between two kills."""
MOST_AHEAD = 60
"""Of the rows that are not confirmed; the writers wait while there are more."""


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with new_postgres() as made:
        with psycopg.connect(made.url, autocommit=True) as database:
            database.execute(
                "create table orders(id int primary key, amount int, confirmed bool not null default false)"
            )
        yield made


class Writers:
    """Two, each in transactions of three rows, half of which are committed only after later ones; and some are rolled
    back. `committed`: the records of the rows that the table has.
    """

    def __init__(self, server: Postgres) -> None:
        self.committed: set[str] = set()
        self._server = server
        self._ids = itertools.count()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._write) for _ in range(2)]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Returns when the last transaction has ended."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        with psycopg.connect(self._server.url) as database:
            for turn in itertools.count():
                while count_unconfirmed(self._server) > MOST_AHEAD and not self._end.wait(0.2):
                    pass
                rows = [(number, number * 7 % 1000) for number in itertools.islice(self._ids, 3)]
                database.cursor().executemany("insert into orders(id, amount) values (%s, %s)", rows)
                self._end.wait(0.3 if turn % 2 else 0.05)
                if turn % 5 == 4:
                    database.rollback()
                else:
                    database.commit()
                    self.committed |= {f"{{id={number}, amount={amount}}}" for number, amount in rows}
                if self._end.is_set():
                    return


class Confirmer:
    """Reads the topic as any read_committed consumer does, and confirms each row in the table."""

    def __init__(self, server: Postgres, stage: Stage) -> None:
        self._server = server
        self._stage = stage
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._confirm)

    def __enter__(self) -> "Confirmer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _confirm(self) -> None:
        known: set[str] = set()
        with psycopg.connect(self._server.url, autocommit=True) as database:
            while not self._end.wait(0.1):
                new = read(self._stage).keys() - known
                known |= new
                ids = [int(row.removeprefix("{id=").partition(",")[0]) for row in new]
                database.execute("update orders set confirmed = true where id = any(%s)", (ids,))


def read(stage: Stage) -> Counter[str]:
    """How often a read_committed reader sees each row, such as `{id=7, amount=49}`."""
    log = TopicLog(stage.connection, stage.data)
    try:
        return Counter((record.value or b"").decode() for record in log.read_to_end(Deadline.after(60)))
    finally:
        log.close()


def find_unconfirmed(server: Postgres) -> set[str]:
    """When the connector's own session is gone, so that it reads nothing more."""
    with psycopg.connect(server.url, autocommit=True) as database:

        def alone() -> bool:
            found = database.execute(
                "select count(*) from pg_stat_activity where application_name = 'PostgreSQL JDBC Driver'"
            ).fetchone()
            return found == (0,)

        eventually(alone, 30, lambda: "the killed connector's session has not ended")
        rows = database.execute("select id, amount from orders where not confirmed").fetchall()
    return {f"{{id={number}, amount={amount}}}" for number, amount in rows}


def config_of(stage: Stage, postgres: Postgres) -> dict[str, str]:
    options = {"useIterator": "true", "dataSource": "#bean:ds", "initialDelay": "100", "delay": "50"}
    query = "select id, amount from orders where not confirmed order by id"
    return {
        "name": str(stage.connector),
        "connector.class": CAMEL_CLASS,
        "tasks.max": "1",
        "topics": stage.data,
        "camel.source.url": f"sql:{query}?{'&'.join(f'{name}={value}' for name, value in options.items())}",
        "camel.beans.ds": "#class:org.postgresql.ds.PGSimpleDataSource",
        "camel.beans.ds.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/ringfence",
        "camel.beans.ds.user": "ringfence",
        "camel.beans.ds.password": "none",
        "camel.source.maxPollDuration": "200",
        # Each row once in the life of a JVM, although the query brings it until it is confirmed.
        "camel.idempotency.enabled": "true",
        "camel.idempotency.expression.type": "body",
        "camel.idempotency.memory.dimension": "100000",
        "key.converter": TEXT,
        "value.converter": TEXT,
        "transaction.boundary": "poll",
    }


def test_no_row_is_lost_and_only_unconfirmed_ones_come_twice(stage: Stage, postgres: Postgres, tmp_path: Path) -> None:
    worker = settings_of(runtime_of(install(tmp_path / "plugins", resolve("camel-sql", JARS))))
    config = config_of(stage, postgres)
    stage.configure(config)
    stage.count()
    attempts: list[JavaAttempt] = []
    may_double: Counter[str] = Counter()

    def start() -> JavaAttempt:
        attempts.append(JavaAttempt(stage, len(attempts) + 1, config, CAMEL_TASK, worker))
        return attempts[-1]

    def reached(number: int) -> bool:
        if not attempts[-1].running:
            pytest.fail(f"The task has ended: {attempts[-1].outcome()['trace']}")
        return len(read(stage)) >= number

    writers = Writers(postgres)

    def describe() -> str:
        seen = read(stage)
        told = (
            f"{len(seen)} rows visible, {len(writers.committed)} in the table, {count_unconfirmed(postgres)} not marked"
        )
        return f"{told}, not visible: {sorted(writers.committed - seen.keys())[:5]}\n{attempts[-1].log[-3000:]}"

    try:
        with writers, Confirmer(postgres, stage):
            for kill in KILLS:
                running = start()
                eventually(partial(reached, len(read(stage)) + ROWS_A_TURN), 120, describe, pause=0.02)
                if kill == "java":
                    assert "ended by signal 9" in running.kill_java()["trace"]
                else:
                    running.kill_python()
                may_double.update(find_unconfirmed(postgres))
            last = start()
            writers.finish()
            eventually(lambda: reached(len(writers.committed)), 120, describe, pause=0.2)
            eventually(lambda: not count_unconfirmed(postgres), 60, describe, pause=0.2)
            assert last.stop()["trace"] is None
        found = read(stage)
    finally:
        for each in attempts:
            each.close()
    doubled = found - Counter(found.keys())
    print(f"{len(found)} rows, {found.total()} records, {doubled.total()} of them doubles, {len(KILLS)} kills")
    assert found.keys() == writers.committed, "a row is lost, or changed on its way"
    assert not doubled - may_double, "a row came twice that was confirmed before each kill"


def count_unconfirmed(server: Postgres) -> int:
    """How many rows nobody has confirmed."""
    with psycopg.connect(server.url, autocommit=True) as database:
        found = database.execute("select count(*) from orders where not confirmed").fetchone()
    assert found is not None
    return int(found[0])
