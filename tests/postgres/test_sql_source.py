"""SqlSource on PostgreSQL: mode xmin reads what commits late, bare numbers miss it; queries; kills change nothing."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal

import psycopg
import pytest

from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from tests.postgres.local import loopback
from tests.support.attempts import WITHOUT_TRANSACTIONS
from tests.support.broker import Broker
from tests.support.postgres import Postgres
from tests.support.sql_kills import read_under_kills
from tests.support.sql_runs import Seen


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

    def query(self, query: str) -> dict[str, str]:
        """Without a mode."""
        config = {**self.config(""), "query": query, "topic.prefix": "joined"}
        return {key: value for key, value in config.items() if key not in ("mode", "table.whitelist", "tables")}

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


@pytest.mark.thorough
def test_every_row_once_under_kills_and_concurrent_writers(
    numbers: Numbers, broker: Broker, unique: Callable[[str], str]
) -> None:
    wanted = 3 * 3 * 150
    config = numbers.config("xmin", batch_max_rows="50")
    writers = [lambda: numbers.write(150)] * 3
    seen = read_under_kills(broker.bootstrap, unique("sql"), config, _LOOPBACK, writers, (1, 200), wanted)
    assert seen == list(range(1, wanted + 1)), "a row is missing, or there twice"


@pytest.mark.thorough
def test_without_transactions_rows_come_twice(numbers: Numbers, broker: Broker, unique: Callable[[str], str]) -> None:
    """So the tests of kills can tell."""
    config, worker = numbers.config("xmin", batch_max_rows="50"), {**_LOOPBACK, **WITHOUT_TRANSACTIONS}
    writers = [lambda: numbers.write(150)] * 3
    wanted = 3 * 3 * 150
    seen = read_under_kills(broker.bootstrap, unique("sql"), config, worker, writers, (1, 200), wanted + 1)
    assert {*seen} <= {*range(1, wanted + 1)}, "one more row than there are: the control saw none twice"


@pytest.mark.thorough
def test_every_row_of_a_query_once_under_kills_and_concurrent_writers(
    numbers: Numbers, broker: Broker, unique: Callable[[str], str]
) -> None:
    wanted = 3 * 3 * 150
    config = {
        **numbers.query(f"SELECT t.id, t.at, u.n FROM {numbers.name} t JOIN (SELECT 'x' AS n) u ON u.n = t.n;"),
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "id",
        "timestamp.column.name": "at",
        "timestamp.delay.interval.ms": "15000",
        "batch.max.rows": "20",
    }
    writers = [lambda: numbers.write(150)] * 3
    seen = read_under_kills(broker.bootstrap, unique("query"), config, _LOOPBACK, writers, (1, 200, 600), wanted)
    assert seen == list(range(1, wanted + 1)), "a row is missing, or there twice"


def test_a_query_has_the_types_of_its_result(numbers: Numbers) -> None:
    numbers.run(f"INSERT INTO {numbers.name} (at, n) VALUES ('2026-03-29 01:30:00.125+00', 'a:b')")
    query = f"""
        SELECT id, id::bigint AS big, id::smallint AS small, id = 1 AS yes, 2.5::numeric(10, 2) AS price, 1/3.0 AS any,
               0.25::float8 AS ratio, at, at::timestamp AS naive, at::date AS day, at::time AS since, n AS "Na me",
               '{{"a": [1, ":x"]}}'::jsonb AS doc, '\\x00ff'::bytea AS raw, NULL AS nothing,
               '9f0c3f2e-6a53-4d34-9d4e-0d5f4f1c2b3a'::uuid AS uuid, ':id' AS colon
        FROM {numbers.name} WHERE n LIKE '%:b' -- ends in a comment"""
    config = {**numbers.query(query), "mode": "incrementing", "incrementing.column.name": "id"}
    assert SqlSourceConnector().validate(config) == {}
    (row,) = Seen().run(config).rows
    assert row == {
        "id": 1,
        "big": 1,
        "small": 1,
        "yes": True,
        "price": Decimal("2.50"),
        "any": "0.33333333333333333333",
        "ratio": 0.25,
        "at": datetime(2026, 3, 29, 1, 30, 0, 125_000, UTC),
        "naive": datetime(2026, 3, 29, 1, 30, 0, 125_000, UTC),
        "day": date(2026, 3, 29),
        "since": time_of_day(1, 30, 0, 125_000),
        "Na me": "a:b",
        "doc": '{"a": [1, ":x"]}',
        "raw": b"\x00\xff",
        "nothing": None,
        "uuid": "9f0c3f2e-6a53-4d34-9d4e-0d5f4f1c2b3a",
        "colon": ":id",
    }


def test_what_validation_says_of_a_query(numbers: Numbers) -> None:
    def errors(query: str, mode: str = "bulk", **more: str) -> Mapping[str, Sequence[str]]:
        settings = {key.replace("_", "."): value for key, value in more.items()}
        return SqlSourceConnector().validate({**numbers.query(query), "mode": mode, **settings})

    table = numbers.name
    assert errors(f"SELECT * FROM {table}") == {}
    assert "a query" in errors(f"SELECT * FROM {table}", "xmin")["mode"][0]
    assert "syntax error" in errors("SELECT 1 FRM x")["query"][0]
    twice = errors(f"SELECT a.id, b.id FROM {table} a JOIN {table} b USING (id)")["query"][0]
    assert "several columns are called id" in twice
    assert "no column at" in errors(f"SELECT id FROM {table}", "timestamp", timestamp_column_name="at")["mode"][0]
    for statement in (
        f"DELETE FROM {table}",
        f"WITH gone AS (DELETE FROM {table} RETURNING *) SELECT * FROM gone",
        f"SELECT 1) AS query; DELETE FROM {table}; SELECT * FROM (SELECT 1",
    ):
        numbers.run(f"INSERT INTO {table} (n) VALUES ('kept')")
        assert "query" in errors(statement)
        with numbers.connect() as connection:
            assert connection.execute(f"SELECT count(*) > 0 FROM {table}").fetchone() == (True,)


_LOOPBACK = {"egress.allow": "loopback"}
