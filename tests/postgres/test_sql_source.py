"""SqlSource on PostgreSQL: mode xmin reads what commits late, bare numbers miss it; kills change nothing."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.sql.task import SqlSourceTask
from ringfence.connectors.class_names import class_name
from ringfence.fencing.kafka.settings import Connection
from tests.connectors.test_sql_source import Seen
from tests.guarantees.stage import Stage
from tests.postgres.local import loopback
from tests.support.attempts import Attempt
from tests.support.broker import Broker
from tests.support.postgres import Postgres
from tests.support.waiting import eventually


class Numbers:
    """A table with an increasing number and a time, written by transactions that commit in any order."""

    def __init__(self, server: Postgres, name: str) -> None:
        self.name = name
        self._server = server
        self.run(
            f"CREATE TABLE {name} (id serial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), n text)"
        )

    def config(self, mode: str, **more: str) -> dict[str, str]:
        return {
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self._server.port}/ringfence",
            "connection.user": "ringfence",
            "mode": mode,
            "table.whitelist": self.name,
            "tables": f'[["public", "{self.name}"]]',
            "topic.prefix": "",
            "poll.interval.ms": "20",
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self._server.url, autocommit=True)

    def run(self, statement: str) -> None:
        with self.connect() as connection:
            connection.execute(statement)

    def write(self, count: int) -> None:
        """Transactions of three rows, of which some take a while."""
        with psycopg.connect(self._server.url) as connection:
            for _ in range(count):
                for _ in range(3):
                    connection.execute(f"INSERT INTO {self.name} (n) VALUES ('x')")
                    time.sleep(random.choice((0, 0, 0.003)))
                connection.commit()


@pytest.fixture
def numbers(server: Postgres, unique: Callable[[str], str]) -> Iterator[Numbers]:
    with loopback():
        yield Numbers(server, unique("sql").replace("-", "_"))


def test_xmin_misses_nothing_that_commits_late_and_numbers_alone_do(numbers: Numbers) -> None:
    late = numbers.connect()
    late.autocommit = False
    late.execute(f"INSERT INTO {numbers.name} (n) VALUES ('late')")
    numbers.run(f"INSERT INTO {numbers.name} (n) VALUES ('early')")
    config = numbers.config("xmin")
    assert SqlSourceConnector().validate(config) == {}
    seen, control = Seen().run(config), Seen().run(numbers.config("incrementing", incrementing_column_name="id"))
    assert control.column("n") == ["early"]
    late.commit()
    assert sorted(seen.run(config).column("n"), key=str) == ["early", "late"]
    assert control.run(numbers.config("incrementing", incrementing_column_name="id")).column("n") == ["early"]
    numbers.run(f"UPDATE {numbers.name} SET n = 'changed' WHERE n = 'late'")
    assert seen.run(config).column("n")[-1] == "changed"
    assert len(seen.rows) == 3


def test_a_window_of_many_rows_is_gone_on_with_after_its_last_key(numbers: Numbers) -> None:
    numbers.run(f"INSERT INTO {numbers.name} (n) SELECT i FROM generate_series(1, 10) i")
    config = numbers.config("xmin", batch_max_rows="4")
    seen = Seen().run(config, polls=1)
    assert len(seen.rows) == 4
    numbers.run(f"UPDATE {numbers.name} SET n = 'changed' WHERE id IN (1, 9)")
    for _ in range(5):
        seen.run(config, polls=1)
    # Row 9 was not read before it changed: its new content comes with the next window, and only that.
    assert sorted((row["id"], row["n"]) for row in seen.rows) == sorted(
        [*((i, str(i)) for i in range(1, 11) if i != 9), (1, "changed"), (9, "changed")], key=lambda pair: pair
    )


def test_every_row_once_under_kills_and_concurrent_writers(
    numbers: Numbers, server: Postgres, broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    stage = Stage(Connection(broker.bootstrap), unique("sql"))
    text = "org.apache.kafka.connect.storage.StringConverter"
    config = {
        **numbers.config("xmin", batch_max_rows="50"),
        "name": str(stage.connector),
        "connector.class": "SqlSource",
        "tasks.max": "1",
        "key.converter": text,
        "value.converter": text,
        "transforms": "id,topic,text",
        "transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.id.field": "id",
        "transforms.topic.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.topic.regex": ".*",
        "transforms.topic.replacement": stage.data,
        "transforms.text.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.text.spec": "string",
        "transaction.boundary": "poll",
        "exactly.once.support": "required",
    }
    stage.configure(config)
    stage.count()
    writers = [threading.Thread(target=numbers.write, args=(150,)) for _ in range(3)]
    attempts: list[Attempt] = []
    try:
        for each in writers:
            each.start()
        for least in (1, 200):
            attempts.append(Attempt(stage, len(attempts) + 1, config, class_name(SqlSourceTask), _LOOPBACK))
            eventually(lambda least=least: len(stage.visible()) >= least, 60, lambda: attempts[-1].log, pause=0.05)  # type: ignore[misc]
            attempts[-1].kill()
        for each in writers:
            each.join()
        attempts.append(Attempt(stage, len(attempts) + 1, config, class_name(SqlSourceTask), _LOOPBACK))
        wanted = 3 * 3 * 150
        eventually(lambda: len(stage.visible()) >= wanted, 60, lambda: attempts[-1].log, pause=0.2)
        assert attempts[-1].stop()["trace"] is None
        assert sorted(stage.visible()) == list(range(1, wanted + 1)), "a row is missing, or there twice"
    finally:
        for one in attempts:
            one.close()
        stage.close()


_LOOPBACK = {"egress.allow": "loopback"}
