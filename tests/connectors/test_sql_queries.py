"""SqlSource reading a query on SQLite: modes, types, offsets of the JDBC source connector, kills, a form's choices."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from ringfence.connectors.api import ConnectorError, Struct
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.sql.task import SqlSourceTask
from tests.connectors.fakes import FakeContext, FakeOffsets
from tests.support.broker import Broker
from tests.support.sql_kills import read_under_kills
from tests.support.sql_runs import Seen, Sqlite

pytestmark = pytest.mark.usefixtures("temporary_roots")


PARTITION = '{"query":"query"}'
JOINED = "SELECT o.id, o.at, c.name FROM o JOIN c ON c.id = o.c WHERE c.name <> 'nobody' ; "


@pytest.fixture
def shop(sqlite: Sqlite) -> Sqlite:
    sqlite.run("create table c (id integer primary key not null, name text not null)")
    sqlite.run("create table o (id integer primary key not null, at datetime not null, n numeric(10, 2), c integer)")
    sqlite.run("insert into c values (1, 'Ann'), (2, 'nobody')")
    return sqlite


def config_of(shop: Sqlite, mode: str, query: str = JOINED, **more: str) -> dict[str, str]:
    config = shop.config(mode, query=query, topic_prefix="orders", **more)
    del config["tables"]
    return config


def order(shop: Sqlite, number: int, second: int, customer: int = 1) -> None:
    shop.run("insert into o values (?, ?, 1.5, ?)", number, f"2026-01-01 00:00:{second:02}.250000", customer)


@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "timestamp+incrementing"])
def test_rows_of_a_query_are_read_once_over_restarts(shop: Sqlite, mode: str) -> None:
    for number in range(7):
        order(shop, number, second=number // 3)
    order(shop, 7, second=9, customer=2)
    config = config_of(shop, mode, incrementing_column_name="id", timestamp_column_name="at", batch_max_rows="2")
    assert SqlSourceConnector().validate(config) == {}
    seen = Seen()
    for _ in range(6):  # killed after every batch
        seen.run(config, polls=1)
    assert seen.column("id") == list(range(7))
    assert list(seen.offsets) == [PARTITION]
    order(shop, 8, second=10)
    assert seen.run(config).column("id")[7:] == [8]


def test_bulk_reads_the_query_as_it_is(shop: Sqlite) -> None:
    order(shop, 1, second=1)
    query = "SELECT c.name, count(*) AS orders FROM o JOIN c ON c.id = o.c GROUP BY c.name HAVING count(*) < 10 -- few"
    config = config_of(shop, "bulk", query)
    assert SqlSourceConnector().validate(config) == {}
    assert Seen().run(config, polls=2).rows == [{"name": "Ann", "orders": "1"}] * 2
    assert SqlSourceConnector().exactly_once_support(config) == "UNSUPPORTED"


def test_computed_columns_have_the_types_of_casts(shop: Sqlite) -> None:
    order(shop, 1, second=1)
    query = """SELECT id, CAST(count(*) AS INTEGER) AS orders, CAST(max(n) * 0.5 AS REAL) AS half, max(n) AS n,
                      CAST(c AS TEXT) AS c, CAST(c AS NUMERIC) AS any FROM o -- all"""
    (row,) = Seen().run(config_of(shop, "bulk", query), polls=1).rows
    assert row == {"id": 1, "orders": 1, "half": 0.75, "n": "1.5", "c": "1", "any": "1"}
    assert isinstance(row["half"], float)


def test_a_suffix_limits_each_query(shop: Sqlite) -> None:
    for number in range(1, 8):
        order(shop, number, second=number)
    config = config_of(shop, "incrementing", incrementing_column_name="id", query_suffix=" limit 3; ")
    assert SqlSourceConnector().validate(config) == {}
    seen = Seen().run(config, polls=1)
    assert [row["id"] for row in seen.rows] == [1, 2, 3]
    assert [row["id"] for row in seen.run(config).rows] == [*range(1, 8)]
    assert len(Seen().run(config_of(shop, "bulk", query_suffix="LIMIT 2"), polls=1).rows) == 2
    for wrong in ("LIMIT 2 OFFSET 1", "FOR UPDATE SKIP LOCKED", "; DELETE FROM o"):
        (value,) = (
            one
            for one in SqlSourceConnector.config_def().validate(config | {"query.suffix": wrong})
            if one.name == "query.suffix"
        )
        assert "Only LIMIT" in value.errors[0]


def test_records_go_to_the_topic_of_the_prefix_with_declared_types(shop: Sqlite) -> None:
    order(shop, 1, second=1)
    task = SqlSourceTask()
    task.context = FakeContext(FakeOffsets([]))
    task.start(config_of(shop, "incrementing", "SELECT *, ':x' || 'a%' AS t FROM o", incrementing_column_name="id"))
    (record,) = task.poll() or ()
    task.stop()
    assert record.topic == "orders"
    assert isinstance(record.value, Struct)
    assert record.value.values == [1, datetime(2026, 1, 1, 0, 0, 1, 250_000, UTC), Decimal("1.50"), 1, ":xa%"]
    assert record.value.schema.name is None


def test_offsets_of_the_jdbc_connector_are_taken_over(shop: Sqlite) -> None:
    for number in range(3):
        order(shop, number, second=number)
    config = config_of(shop, "incrementing", incrementing_column_name="id")
    assert Seen({PARTITION: {"incrementing": 1}}).run(config).column("id") == [2]
    assert SqlSourceConnector().alter_offsets(config, [({"query": "query"}, {"incrementing": 1})])
    with pytest.raises(ConnectorError, match="must name a table"):
        SqlSourceConnector().alter_offsets(config, [({"query": "another"}, {"incrementing": 1})])


def test_one_task_reads_the_query(shop: Sqlite) -> None:
    connector = SqlSourceConnector()
    connector.start(config_of(shop, "bulk"))
    assert connector.task_configs(4) == [config_of(shop, "bulk")]
    connector.stop()


def test_what_validation_says(shop: Sqlite, tmp_path: Path) -> None:
    def errors(query: str, mode: str = "bulk", **more: str) -> Mapping[str, Sequence[str]]:
        return SqlSourceConnector().validate(config_of(shop, mode, query, **more))

    assert "not both" in errors(JOINED, table_whitelist="o")["query"][0]
    assert "not both" in errors(JOINED, table_blacklist="o")["query"][0]
    assert "topic" in SqlSourceConnector().validate({**config_of(shop, "bulk"), "topic.prefix": " "})["topic.prefix"][0]
    assert "no such table" in errors("SELECT * FROM missing")["query"][0]
    numbers = errors("SELECT name FROM c", "incrementing", incrementing_column_name="id")
    assert "result of the query has no column id" in numbers["mode"][0]
    times = errors("SELECT max(at) AS at FROM o", "timestamp", timestamp_column_name="at")
    assert "does not contain times" in times["mode"][0]
    other = tmp_path / "other.sqlite"
    for statement in (f"ATTACH '{other}' AS x", "DELETE FROM c", f"SELECT 1) AS q; ATTACH '{other}' AS x; SELECT (1"):
        assert "query" in errors(statement)
    assert not os.path.exists(other)


def test_a_form_offers_tables_and_columns(shop: Sqlite) -> None:
    tables = SqlSourceConnector().list_choices({**shop.config("bulk"), "table.whitelist": "o"})
    assert [one.value for one in tables["table.whitelist"]] == ["c", "o"]
    assert [one.value for one in tables["incrementing.column.name"]] == ["id", "c"]
    assert [one.value for one in tables["timestamp.column.name"]] == ["at"]
    both = SqlSourceConnector().list_choices(shop.config("bulk"))
    assert [(one.value, one.description) for one in both["incrementing.column.name"]] == [
        ("id", "integer, primary key")
    ]
    query = SqlSourceConnector().list_choices(config_of(shop, "bulk"))
    assert [one.value for one in query["incrementing.column.name"]] == ["id"]
    assert [one.value for one in query["timestamp.column.name"]] == ["at"]


@pytest.mark.thorough
def test_every_row_of_a_query_once_under_kills(
    shop: Sqlite, broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    shop.run("PRAGMA journal_mode=WAL")

    def write() -> None:
        writer = Sqlite(shop.path)
        for _ in range(1000):
            writer.run("insert into o (at, c) values (datetime('now'), 1)")
        writer.connection.close()

    config = config_of(shop, "incrementing", incrementing_column_name="id", batch_max_rows="10")
    roots = {"file.roots": str(tmp_path)}
    seen = read_under_kills(broker.bootstrap, unique("query"), config, roots, [write], (1, 200, 600), 1000)
    assert seen == list(range(1, 1001)), "a row is missing, or there twice"
