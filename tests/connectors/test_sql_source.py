"""SqlSource on SQLite: offsets, order, types and what validation says."""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.sql.task import SqlSourceTask
from ringfence.connectors.converters.json_converter import JsonConverter
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from tests.connectors.fakes import FakeContext, FakeOffsets
from tests.support.examples import examples
from tests.support.sql_runs import Seen, Sqlite

pytestmark = pytest.mark.usefixtures("temporary_roots")


def test_incrementing_goes_on_after_the_last_number(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer primary key not null, x text)")
    for number in range(7):
        sqlite.run("insert into t values (?, ?)", number, f"x{number}")
    config = sqlite.config("incrementing", incrementing_column_name="id", batch_max_rows="3")
    seen = Seen()
    for _ in range(4):
        seen.run(config, polls=1)
    assert seen.column("id") == list(range(7))
    assert seen.offsets == {'{"protocol":"1","table":"t"}': {"incrementing": 6}}
    sqlite.run("insert into t values (8, 'late')")
    assert seen.run(config).column("x")[-1] == "late"
    assert len(seen.rows) == 8


times = st.lists(st.integers(0, 5), min_size=1, max_size=25)


@given(times=times, limit=st.integers(1, 6), both=st.booleans())
@settings(max_examples=examples(40))
def test_equal_times_over_the_end_of_a_batch(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], limit: int, both: bool
) -> None:
    path = tmp_path_factory.mktemp("sql") / "database.sqlite"
    worker_limits.declare(WorkerLimits((str(path.parent),)))
    sqlite = Sqlite(path)
    sqlite.run("create table t (id integer primary key not null, at datetime not null)")
    for number, second in enumerate(times):
        sqlite.run("insert into t values (?, ?)", number, f"2026-01-01 00:00:0{second}.250000")
    mode = "timestamp+incrementing" if both else "timestamp"
    config = sqlite.config(mode, timestamp_column_name="at", incrementing_column_name="id", batch_max_rows=str(limit))
    seen = Seen()
    for _ in range(len(times) + 2):  # killed after every batch
        seen.run(config, polls=1)
    sqlite.connection.close()
    assert sorted(seen.column("id"), key=int) == list(range(len(times)))  # type: ignore[arg-type]
    assert seen.column("at") == sorted(seen.column("at"))  # type: ignore[type-var]
    if both:
        assert max(seen.batches) <= limit


def test_rows_younger_than_the_delay_wait(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer primary key not null, at datetime not null)")
    now = datetime.now(UTC).replace(tzinfo=None)
    for number, age in enumerate((3600, 1)):
        sqlite.run("insert into t values (?, ?)", number, str(now - timedelta(seconds=age)))
    config = sqlite.config("timestamp", timestamp_column_name="at")
    assert Seen().run({**config, "timestamp.delay.interval.ms": "600000"}).column("id") == [0]
    seen = Seen().run({**config, "timestamp.initial": "-1"})
    assert seen.rows == []
    sqlite.run("insert into t values (3, ?)", str(datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=-0.0)))
    assert len(seen.offsets) == 1  # "now" was committed, and does not move


def test_bulk_reads_all_each_time_and_promises_nothing(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer)")
    sqlite.run("insert into t values (1), (null)")
    assert Seen().run(sqlite.config("bulk"), polls=2).column("id") == [1, None, 1, None]
    assert SqlSourceConnector().exactly_once_support(sqlite.config("bulk")) == "UNSUPPORTED"
    assert SqlSourceConnector().exactly_once_support(sqlite.config("timestamp")) == "SUPPORTED"


def test_types(sqlite: Sqlite) -> None:
    sqlite.run(
        "create table t (i integer not null, b bigint, s smallint, n numeric(10, 2), f double precision, x text,"
        " y blob, d date, at datetime, flag boolean)"
    )
    sqlite.run("insert into t values (1, 2, 3, 4.5, 5.25, 'x', x'00ff', '2026-02-03', '2026-02-03 04:05:06.789000', 1)")
    sqlite.run("insert into t (i) values (9)")
    first, second = Seen().run(sqlite.config("bulk", db_timezone="Europe/Berlin"), polls=1).rows
    assert first == {
        "i": 1,
        "b": 2,
        "s": 3,
        "n": Decimal("4.50"),
        "f": 5.25,
        "x": "x",
        "y": b"\x00\xff",
        "d": date(2026, 2, 3),
        "at": datetime(2026, 2, 3, 3, 5, 6, 789000, tzinfo=UTC),
        "flag": True,
    }
    assert {key for key, value in second.items() if value is not None} == {"i"}
    assert Seen().run(sqlite.config("bulk", numeric_mapping="best_fit"), polls=1).rows[0]["n"] == 4.5


def test_records_become_json(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer primary key not null, x text)")
    sqlite.run("insert into t values (1, 'tea')")
    task = SqlSourceTask()
    task.context = FakeContext(FakeOffsets([]))
    task.start(sqlite.config("bulk"))
    (record,) = task.poll() or ()
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    made = orjson.loads(converter.from_record("t", record.value, record.value_schema) or b"")
    assert made["payload"] == {"id": 1, "x": "tea"}
    assert [field["field"] for field in made["schema"]["fields"]] == ["id", "x"]
    task.stop()


def test_offsets_of_the_jdbc_connector_are_taken_over(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer primary key not null)")
    sqlite.run("insert into t values (1), (2), (3)")
    config = sqlite.config("incrementing", incrementing_column_name="id")
    for partition in ('{"protocol":"1","table":"t"}', '{"table":"t"}'):
        assert Seen({partition: {"incrementing": 2}}).run(config).column("id") == [3]


def test_what_validation_says(sqlite: Sqlite, tmp_path: Path) -> None:
    sqlite.run("create table t (id integer primary key not null, maybe integer, at datetime not null)")

    def errors(mode: str, **more: str) -> Mapping[str, Sequence[str]]:
        return SqlSourceConnector().validate(sqlite.config(mode, **more))

    assert errors("incrementing", incrementing_column_name="id") == {}
    assert "incrementing.column.name" in errors("incrementing")
    assert "no column none" in errors("incrementing", incrementing_column_name="none")["mode"][0]
    assert "may be null" in errors("incrementing", incrementing_column_name="maybe")["mode"][0]
    assert errors("incrementing", incrementing_column_name="maybe", validate_non_null="false") == {}
    assert "does not contain times" in errors("timestamp", timestamp_column_name="id")["mode"][0]
    assert "for PostgreSQL" in errors("xmin")["mode"][0]
    assert "no table u" in errors("bulk", table_whitelist="u")["table.whitelist"][0]
    assert "not supported" in errors("bulk", connection_url="jdbc:oracle:thin:@h:1/x")["connection.url"][0]
    refused = errors("bulk", connection_url="jdbc:postgresql://127.0.0.1:1/x")["connection.url"][0]
    assert "not allowed" in refused
    option = errors("bulk", connection_url="jdbc:postgresql://192.0.2.1/x?sslkey=/etc/passwd")["connection.url"][0]
    assert "sslkey is not allowed" in option
    worker_limits.declare(WorkerLimits((str(tmp_path / "other"),)))
    assert "not below a folder" in errors("bulk")["connection.url"][0]


def test_offsets_by_hand_are_checked() -> None:
    connector = SqlSourceConnector()
    assert connector.alter_offsets({}, [({"protocol": "1", "table": "t"}, {"incrementing": 3})])
    with pytest.raises(ConnectorError, match="must name a table"):
        connector.alter_offsets({}, [({"x": "t"}, {"incrementing": 3})])
    with pytest.raises(ConnectorError, match="contain only integers"):
        connector.alter_offsets({}, [({"table": "t"}, {"incrementing": "3"})])


def test_nothing_is_written_to_the_database(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer primary key not null)")
    task = SqlSourceTask()
    task.context = FakeContext(FakeOffsets([]))
    task.start(sqlite.config("bulk"))
    connection = task._connect().connection.driver_connection
    assert isinstance(connection, sqlite3.Connection)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("insert into t values (1)")
    task.stop()
