"""SqlSource on a real MariaDB: its types, times in UTC, late commits, a server that dies, tasks that are killed."""

import random
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from ringfence.connectors.api import RetriableError
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.sql.task import SqlSourceTask
from tests.connectors.fakes import FakeContext
from tests.support.broker import Broker
from tests.support.mariadb import PASSWORD, MariaDb
from tests.support.mariadb_tables import config_of, of_query, schema_of
from tests.support.sql_kills import read_under_kills
from tests.support.sql_runs import Seen
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("loopback_egress")]

_LOOPBACK = {"egress.allow": "loopback"}


def test_types(mariadb: MariaDb) -> None:
    mariadb.run(
        "CREATE TABLE types (id bigint unsigned PRIMARY KEY, small smallint unsigned, yes boolean, price decimal(10,2),"
        " ratio double, at datetime(3), stamp timestamp(6) NULL, day date, name varchar(20) CHARACTER SET utf8mb4,"
        " doc json, raw blob, kind enum('a','b'), since time)",
        "SET time_zone = '+05:00'",
    )
    with closing(mariadb.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SET time_zone = '+05:00'")
        cursor.execute(
            "INSERT INTO types VALUES (18446744073709551615, 65535, true, 12.5, 0.25, '2026-03-29 02:30:00.125',"
            " '2026-03-29 02:30:00.125', '2026-02-28', 'Žluťoučký 🐎', '{\"a\": 1}', x'00ff', 'b', '10:00:00')"
        )
        cursor.execute("INSERT INTO types (id) VALUES (1)")
    config = config_of(mariadb, "types", "incrementing", incrementing_column_name="id")
    assert SqlSourceConnector().validate(config) == {}
    empty, full = Seen().run(config).rows
    assert {key: value for key, value in empty.items() if value is not None} == {"id": Decimal(1)}
    assert full == {
        "id": Decimal(18446744073709551615),
        "small": 65535,
        "yes": True,
        "price": Decimal("12.50"),
        "ratio": 0.25,
        "at": datetime(2026, 3, 29, 2, 30, 0, 125_000, UTC),
        "stamp": datetime(2026, 3, 28, 21, 30, 0, 125_000, UTC),  # it was written five hours east of here
        "day": date(2026, 2, 28),
        "name": "Žluťoučký 🐎",
        "doc": '{"a": 1}',
        "raw": b"\x00\xff",
        "kind": "b",
        "since": full["since"],
    }
    assert "10:00" in str(full["since"])
    # A query over the table has the same fields as the table.
    query = of_query(config, "SELECT * FROM types WHERE coalesce(name, '') NOT LIKE '%:x' # ends in a comment")
    assert SqlSourceConnector().validate(query) == {}
    assert Seen().run(query).rows == [empty, full]
    assert schema_of(query) == schema_of(config)


def test_a_delay_reads_what_commits_late_and_bare_numbers_miss_it(mariadb: MariaDb) -> None:
    mariadb.run(
        "CREATE TABLE late (id int AUTO_INCREMENT PRIMARY KEY, at timestamp(6) NOT NULL DEFAULT current_timestamp(6))"
    )
    slow = mariadb.connect(autocommit=False)
    slow.cursor().execute("INSERT INTO late () VALUES ()")
    mariadb.run("INSERT INTO late () VALUES ()")
    numbers = config_of(mariadb, "late", "incrementing", incrementing_column_name="id")
    both = config_of(
        mariadb,
        "late",
        "timestamp+incrementing",
        incrementing_column_name="id",
        timestamp_column_name="at",
        timestamp_delay_interval_ms="1500",
    )
    control, seen = Seen().run(numbers), Seen().run(both)
    slow.commit()
    slow.close()
    eventually(lambda: len(seen.run(both).rows) >= 2, 20, "both rows", pause=0.2)
    assert seen.column("id") == [1, 2]
    assert control.run(numbers).column("id") == [2]


def test_a_server_that_dies_is_a_retriable_error(mariadb: MariaDb) -> None:
    mariadb.run("CREATE TABLE dies (id int PRIMARY KEY)", "INSERT INTO dies VALUES (1)")
    task = SqlSourceTask()
    task.context = FakeContext()
    task.start(config_of(mariadb, "dies", "incrementing", incrementing_column_name="id"))
    try:
        assert len(task.poll() or ()) == 1
        mariadb.kill()
        task._readings[0].due = 0.0
        with pytest.raises(RetriableError) as error:
            task.poll()
        assert PASSWORD not in str(error.value)
        mariadb.start()
        mariadb.run("INSERT INTO dies VALUES (2)")
        task._readings[0].due = 0.0
        (record,) = task.poll() or ()
        assert record.source_offset == {"incrementing": 2}
    finally:
        task.stop()


@pytest.mark.parametrize(
    "query", ["", "SELECT k.id, k.at FROM kills k LEFT JOIN kills o ON o.id = -k.id WHERE k.id % 1 = 0"]
)
def test_every_row_once_under_kills_and_concurrent_writers(
    mariadb: MariaDb, broker: Broker, unique: Callable[[str], str], query: str
) -> None:
    mariadb.run(
        "CREATE OR REPLACE TABLE kills (id int AUTO_INCREMENT PRIMARY KEY, "
        "at timestamp(6) NOT NULL DEFAULT current_timestamp(6), KEY (at, id))"
    )
    config = config_of(
        mariadb,
        "kills",
        "timestamp+incrementing",
        incrementing_column_name="id",
        timestamp_column_name="at",
        timestamp_delay_interval_ms="5000",
        batch_max_rows="20",
    )
    if query:
        config = of_query(config, query)
    transactions, writers = 150, 3

    def write() -> None:
        with closing(mariadb.connect(autocommit=False)) as connection:
            for _ in range(transactions):
                for _ in range(3):
                    connection.cursor().execute("INSERT INTO kills () VALUES ()")
                    time.sleep(random.choice((0, 0, 0.003)))
                connection.commit()

    wanted = writers * transactions * 3
    seen = read_under_kills(
        broker.bootstrap, unique("maria"), config, _LOOPBACK, [write] * writers, (1, 200, 600), wanted
    )
    assert seen == list(range(1, wanted + 1)), "a row is missing, or there twice"
