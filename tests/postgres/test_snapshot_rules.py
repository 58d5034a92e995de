"""The snapshot against a real server, without Kafka: tables and keys of all kinds, markers, restarts, refusals."""

import threading
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.postgres.connector import PostgresSourceConnector
from ringfence.connectors.builtin.postgres.offsets import (
    Plan,
    PlannedTable,
    RangeProgress,
    Segment,
    plan_records,
    range_partition,
    read_plan,
)
from ringfence.connectors.builtin.postgres.snapshot_reading import split_row
from ringfence.connectors.builtin.postgres.snapshot_run import SnapshotGauges, SnapshotState
from ringfence.engine.plugins.instances import InstanceContext
from ringfence.fencing.task.plugin_metrics import Gauges
from tests.connectors.fakes import FakeOffsets
from tests.postgres.local import Database, config_of
from tests.support.snapshot_envelopes import envelopes, finish, ops

ALL = {"snapshot_mode": "initial", "snapshot_range_rows": "40", "max_batch_size": "30"}


def test_ranges_of_a_large_table_have_about_the_same_size(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 200000)")
    database.execute("ANALYZE t")
    run = database.run(None, snapshot_mode="initial", snapshot_range_rows="10000")
    plan = None
    while plan is None:
        run.poll()
        plan = read_plan("local", run.offsets.offset)
    (table,) = plan.tables
    bounds = [0, *(int(bound[0]) for bound in table.bounds), 200_000]
    sizes = [upper - lower for lower, upper in pairwise(bounds)]
    assert len(sizes) == 20
    assert min(sizes) > 5_000, sizes
    assert max(sizes) < 20_000, sizes


KEYS = {
    "integer": ("id integer PRIMARY KEY", "g"),
    "bigint": ("id bigint PRIMARY KEY", "g * 5000000000"),
    "text, in the order of the database": ("id text PRIMARY KEY", "(ARRAY['Z', 'a', 'ö'])[g % 3 + 1] || g"),
    "text, with a collation": ('id text COLLATE "C" PRIMARY KEY', "chr(65 + g % 50) || g"),
    "uuid": ("id uuid PRIMARY KEY", "md5(g::text)::uuid"),
    "numeric": ("id numeric(10, 1) PRIMARY KEY", "g * 1.5"),
    "timestamp": ("id timestamptz PRIMARY KEY", "'2024-01-01'::timestamptz + g * interval '1 hour'"),
    "two columns": ("id integer, other text, PRIMARY KEY (other, id)", "g"),
    "an index as identity": ("id integer NOT NULL UNIQUE", "g"),
}


QUICK = ("integer", "text, in the order of the database", "two columns", "an index as identity")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[] if kind in QUICK else pytest.mark.slow) for kind in KEYS])
def test_ranges_by_any_key_hold_each_row_once_and_changes_are_told_once(database: Database, kind: str) -> None:
    column, value = KEYS[kind]
    more = ", other" if "other" in column else ""
    other = ", (g % 7)::text" if more else ""
    database.execute(f"CREATE TABLE t ({column}, v integer)")
    if "index" in kind:
        database.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_id_key")
    database.execute(
        f"INSERT INTO t (id{more}, v) SELECT {value}{other}, g FROM generate_series(1, 300) g", "ANALYZE t"
    )
    run = database.run(None, **ALL)
    run.poll_until(lambda: 60 < len(run.records) < 250)
    # Some of these rows are read already, others not yet.
    database.execute("UPDATE t SET v = v + 1000 WHERE v % 3 = 0", "DELETE FROM t WHERE v % 10 = 1")
    records = finish(database, run)
    state: dict[Any, int] = {}
    for found, value in envelopes(records):
        key, op, after = tuple(found.values), value["op"], value["after"]
        if op == "d":
            del state[key]
        else:
            assert (key in state) == (op == "u"), (op, key)
            assert op == "r" or after["v"] == state[key] + 1000
            state[key] = after["v"]
    assert sorted(state.values()) == sorted(row[0] for row in database.connection.execute("SELECT v FROM t").fetchall())
    assert sum(op == "r" for op, _ in ops(records)) > 200
    assert {op for op, _ in ops(records)} == {"r", "u", "d"}, "nothing was changed behind what was read"


def test_rows_are_marked_as_debezium_marks_them(database: Database) -> None:
    for name in ("a", "b", "c"):
        database.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY)")
        database.execute(f"INSERT INTO {name} SELECT generate_series(1, 3)")
    database.execute("CREATE TABLE empty (id integer PRIMARY KEY)")
    run = database.run(None, table_exclude_list="public.empty", **ALL)
    records = finish(database, run)
    found = [value for name in ("a", "b", "c") for _, value in envelopes(records, f"public.{name}")]
    marks = [value["source"]["snapshot"] for value in found]
    assert marks == [
        *("first", "true", "last_in_data_collection"),
        *("first_in_data_collection", "true", "last_in_data_collection"),
        *("first_in_data_collection", "true", "last"),
    ]
    assert (found[0]["op"], found[0]["before"], found[0]["source"]["txId"]) == ("r", None, None)


def test_a_table_without_a_key_is_one_transaction(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute("CREATE TABLE t (v integer)", "ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("INSERT INTO t SELECT generate_series(1, 200)")
    run = database.run(None, **ALL)
    database.execute("DELETE FROM t WHERE v = 7")
    finish(database, run)
    (whole,) = [len(commit) for commit in run.commits if any(record.topic == "local.public.t" for record in commit)][:1]
    assert whole >= 199


def test_a_table_without_a_key_that_takes_too_long_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("CREATE TABLE t (v integer)", "INSERT INTO t SELECT generate_series(1, 200)")
    run = database.run(None, producer_override_transaction_timeout_ms="2", **ALL)
    with pytest.raises(ConnectorError, match=r"has no key.*transaction\.timeout\.ms"):
        finish(database, run)


def test_the_root_of_partitions_is_read_as_the_stream_names_it(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (100)")
    database.execute("CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (100) TO (300)")
    database.execute("INSERT INTO t SELECT generate_series(1, 200)", "ANALYZE t")
    run = database.run(None, publish_via_partition_root="true", **ALL)
    run.poll_until(lambda: len(run.records) > 0)
    database.execute("INSERT INTO t VALUES (201)", "DELETE FROM t WHERE id = 1")
    records = finish(database, run)
    assert {record.topic for record in records if ".t" in record.topic} == {"local.public.t"}
    assert [key for op, key in ops(records) if op in "rc"] == [*range(1, 201), 201]


def test_what_the_publication_leaves_out_is_not_read(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer, secret text)", "CREATE TABLE u (id integer)")
    database.execute("INSERT INTO t SELECT g, g, 'x' FROM generate_series(1, 10) g", "INSERT INTO u VALUES (1)")
    database.execute("CREATE PUBLICATION chosen FOR TABLE t (id, v) WHERE (id > 4)")
    run = database.run(None, publication_name="chosen", **ALL)
    records = finish(database, run)
    assert ops(records) == [("r", key) for key in range(5, 11)]
    assert all([one.name for one in value["after"].schema.fields] == ["id", "v"] for _, value in envelopes(records))
    assert ops(records, "public.u") == []


def test_only_the_rows_where_that_is_asked_for(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 100)")
    run = database.run(None, **ALL | {"snapshot_mode": "initial_only"})
    run.poll_until(lambda: len(run.records) == 100)
    database.execute("INSERT INTO t VALUES (101)")
    for _ in range(5):
        run.poll()
    assert len(run.records) == 100
    assert database.value(f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{database.name}'") == 0


def test_a_truncate_that_some_ranges_were_read_before_is_told_and_ends_what_is_left_out(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 200)")
    database.execute("ANALYZE t")
    run = database.run(None, **ALL, skipped_operations="none")
    run.poll_until(lambda: len(run.records) > 50)
    # It waits for the range that is being read, which holds a lock.
    change = "TRUNCATE t; INSERT INTO t SELECT generate_series(150, 160)"
    other = threading.Thread(target=database.execute, args=[change])
    other.start()
    run.poll_until(lambda: not other.is_alive())
    found = ops(finish(database, run))
    end = found.index(("t", None))
    assert found[end + 1 :] == [("c", key) for key in range(150, 161)]
    assert ("r", 155) in found[:end]


def test_a_transaction_that_runs_since_before_the_slot_is_waited_for(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY)")
    run = database.run(None, **ALL)
    with psycopg.connect(database.connection.info.dsn) as other:
        other.execute("INSERT INTO t VALUES (1)")
        for _ in range(3):
            run.poll()
        assert run.offset is None
    database.execute("INSERT INTO t VALUES (2)")
    assert [key for _, key in ops(finish(database, run))] == [1, 2]


def test_a_range_goes_on_where_a_lost_connection_left_it(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 90)")
    run = database.run(None, **ALL | {"snapshot_range_rows": "1000"})
    run.poll_until(lambda: len(run.records) > 20)
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE query LIKE 'COPY%' AND datname = current_database()"
    )
    assert ops(finish(database, run)) == [("r", key) for key in range(1, 91)]


def test_an_unfinished_snapshot_is_not_passed_over(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 90)")
    run = database.run(None, **ALL)
    run.poll_until(lambda: len(run.records) > 20)
    with pytest.raises(ConnectorError, match="unfinished"):
        database.again(run, snapshot_mode="no_data")
    again = database.again(run)
    assert sorted(key for _, key in ops(run.committed) + ops(finish(database, again))) == list(range(1, 91))


@pytest.mark.parametrize(
    "line, row",
    [
        (b"1\tx", [b"1", b"x"]),
        (b"\\N\t", [None, b""]),
        (b"a\\tb\\\\N\t\\N", [b"a\tb\\N", None]),
        (b"\\\\N\tn\\nl", [b"\\N", b"n\nl"]),
    ],
)
def test_the_text_format_of_copy(line: bytes, row: list[bytes | None]) -> None:
    assert split_row(line) == row


class Nowhere:
    port = 1


def config_tasks(offsets: FakeOffsets, most: int, **settings: str) -> list[str]:
    connector = PostgresSourceConnector()
    connector.context = InstanceContext(offsets, lambda: None)
    names = {key.replace("_", "."): value for key, value in settings.items()}
    connector.start({**config_of(Nowhere(), "none"), "snapshot.mode": "initial", **names})
    try:
        return [config["postgres.snapshot.share"] for config in connector.task_configs(most)]
    finally:
        connector.stop()


def test_as_many_tasks_as_there_is_work_for() -> None:
    offsets = FakeOffsets()
    assert config_tasks(offsets, 4) == ["0/4", "1/4", "2/4", "3/4"]
    assert config_tasks(offsets, 4, snapshot_mode="no_data") == ["0/1"]
    table = PlannedTable(1, "public", "t", ("id",), (("10",),), 20)
    plan = Plan("p", 0, (table,))
    for record in plan_records("local", plan):
        offsets.put(record.source_partition, record.source_offset)
    offsets.put({"server": "local"}, {"lsn_commit": 5})
    assert config_tasks(offsets, 4) == ["0/2", "1/2"]
    for number in range(2):
        done = RangeProgress("p", (Segment(None, "5:5:", 7),), ("3",), 3, done=True)
        offsets.put(range_partition("local", table, number), done.as_offset())
    assert config_tasks(offsets, 4) == ["0/1"]


def test_what_is_told_of_a_snapshot_is_what_is_committed() -> None:
    table = PlannedTable(1, "public", "t", ("id",), (("10",),), 50)
    small = PlannedTable(2, "public", "u", ("id",), (), 3)
    ranges = {
        (1, 0): RangeProgress("p", rows=20, done=True),
        (1, 1): RangeProgress("p", rows=5),
        (2, 0): RangeProgress("p", rows=4, done=True),
    }
    gauges = Gauges()
    SnapshotGauges(gauges).show(SnapshotState("s", None, Plan("p", 0, (table, small)), ranges))
    told = {one["name"]: one["value"] for one in gauges.report()}
    assert told["snapshot_tables_left"] == told["snapshot_ranges_left"] == 1
    assert (told["snapshot_rows"], told["snapshot_rows_estimated"], told["snapshot_table_rows"]) == (29, 54, 25)


def test_validation_says_what_would_be_read_and_what_would_come_twice(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id integer PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 100)", "ANALYZE t"
    )
    database.execute("CREATE TABLE u (v integer)", "ALTER TABLE u REPLICA IDENTITY FULL")
    config = {
        **config_of(database.server, database.name),
        "connector.class": "PostgresSource",
        "snapshot.mode": "initial",
    }
    connector = PostgresSourceConnector()
    assert connector.validate(config) == {}
    initial, _, when_needed, no_data = connector.list_choices(config)["snapshot.mode"]
    assert initial.description.startswith("first 2 tables, about 100 rows")
    assert "1 without a key" in initial.description
    assert "if changes were lost" in when_needed.description
    assert "no rows" in no_data.description
    errors = connector.validate(config | {"transaction.boundary": "poll", "source.transactions": "split"})
    assert "public.u" in errors["snapshot.mode"][0]
