"""Where source transactions end, what a restart skips, which gaps are refused, and when the server may forget."""

import logging
from collections.abc import Callable

import psycopg
import pytest

from ringfence.connectors.api import ConnectorError, RetriableError, Struct
from tests.postgres.local import Database, Run
from tests.support.snapshot_tables import TABLE, ids, insert


def test_a_kafka_transaction_holds_whole_source_transactions_only(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ringfence.connectors.builtin.postgres.task._GROUP_SECONDS", 0.0)
    database.execute(TABLE)
    run = database.run(max_batch_size="7")
    ends, start = set(), 1
    for size in (1, 2, 40, 1, 7, 14, 3, 1, 1, 25):
        database.execute(insert(start, start + size - 1))
        start += size
        ends.add(start - 1)
    database.await_all(run)
    assert ids(run.records) == list(range(1, start))
    assert len(run.commits) > 2
    for commit in run.commits:
        found = ids(commit)
        assert not found or found[-1] in ends


@pytest.mark.parametrize("boundary", ["whole", "split"])
def test_a_split_transaction_goes_on_behind_what_is_committed(
    database: Database, boundary: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    settings = {"max_batch_size": "7", "source_transactions": boundary, "source_transaction_max_rows": "20"}
    database.execute(TABLE, insert(1, 3))
    run = database.run(None, **settings)
    copies = [f"{database.name}_{number}" for number in range(15)]
    for copy in copies:
        database.execute(f"SELECT pg_copy_logical_replication_slot('{database.name}', '{copy}')")
    database.execute(insert(4, 5))
    database.execute(f"BEGIN; {insert(6, 60)}; UPDATE t SET id = -id WHERE id < 10; COMMIT", insert(61, 62))
    database.await_all(run)
    everything = ids(run.records)
    assert len(run.commits) > 4
    assert ("becomes visible in parts" in caplog.text) == (boundary == "whole")
    run.stop()
    done = 0
    for commit, copy in zip(run.commits[:-1], copies, strict=False):
        done += len(ids(commit))
        again = database.run(commit[-1].source_offset, slot_name=copy, **settings)
        database.await_all(again)
        assert ids(again.records) == everything[done:]
        again.stop()


def test_the_server_is_told_only_what_kafka_has(database: Database) -> None:
    database.execute(TABLE)
    run = database.run()
    database.await_all(run)
    committed = int(str((run.offset or {})["lsn_commit"]))
    run.poll_until(lambda: database.confirmed() == committed)
    database.execute(insert(1, 10))
    batch = None
    while not batch:
        batch = run.task.poll()
    run.task.poll()
    assert database.confirmed() == committed
    run.task.commit_record(batch[-1])
    run.task.commit()
    offset = batch[-1].source_offset
    assert offset is not None
    run.poll_until(lambda: database.confirmed() == offset["lsn_commit"])


def test_a_quiet_table_does_not_hold_the_log_back(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringfence.connectors.builtin.postgres.task._QUIET_SECONDS", 0.1)
    database.execute(TABLE, "CREATE TABLE other (id integer)")
    run = database.run(table_include_list="public.t", message_prefix_include_list="none")
    database.execute("INSERT INTO other SELECT generate_series(1, 1000)")
    written = database.value("SELECT (pg_current_wal_lsn() - '0/0')::int8")
    run.poll_until(lambda: database.confirmed() >= written, 5)
    assert run.records == []
    assert run.offset is not None
    assert run.offset["lsn_commit"] == database.confirmed()


def test_a_busy_table_that_is_not_read_does_not_hold_the_log_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the publication, too. So the stream is never at rest, and no transaction has a record."""
    monkeypatch.setattr("ringfence.connectors.builtin.postgres.task._QUIET_SECONDS", 0.01)
    monkeypatch.setattr("ringfence.connectors.builtin.postgres.stream._LONGEST_SECONDS", 0.0)
    database.execute(TABLE, "CREATE TABLE other (id integer)", f"CREATE PUBLICATION {database.name} FOR ALL TABLES")
    run = database.run(table_include_list="public.t", publication_name=database.name)
    run.poll_until(lambda: run.offset is not None)
    database.execute(*["INSERT INTO other SELECT generate_series(1, 5000)"] * 20)
    written = database.value("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8")
    positions: set[int] = set()

    def has_all() -> bool:
        positions.add(int(str((run.offset or {})["lsn_commit"])))
        return bool(database.confirmed() >= written)

    run.poll_until(has_all, 20)
    assert len(positions) > 4, "positions within the stream"
    assert run.records == []


def test_heartbeats_write_records_and_run_the_query(database: Database) -> None:
    database.execute(TABLE, "CREATE TABLE beats (at timestamptz)")
    run = database.run(heartbeat_interval_ms="100", heartbeat_action_query="INSERT INTO beats VALUES (now())")
    run.poll_until(lambda: any(record.topic == "__debezium-heartbeat.local" for record in run.records))
    assert database.value("SELECT count(*) FROM beats") > 0


def test_gaps_are_refused_with_the_remedy(database: Database) -> None:
    database.execute(TABLE)
    run = database.run()
    database.execute(insert(1, 2))
    database.await_all(run)
    run.stop()
    offset = dict(run.offset or {})
    lsn = int(str(offset["lsn_commit"]))

    def refused(because: str, changed: dict[str, object]) -> None:
        with pytest.raises(ConnectorError, match=because) as caught:
            database.run({**offset, **changed})
        assert "reset its offsets" in str(caught.value)

    refused("ahead of this connector's offset", {"lsn_commit": lsn - 1000})
    refused("belongs to another database server", {"system_id": "1"})
    refused("write-ahead log ends at", {"lsn_commit": lsn + (1 << 40)})
    database.execute(f"SELECT pg_drop_replication_slot('{database.name}')")
    refused("no longer exists", {})
    database.execute(f"SELECT pg_create_physical_replication_slot('{database.name}')")
    with pytest.raises(ConnectorError, match="is a physical slot"):
        database.run(offset)


def test_a_slot_that_somebody_else_reads_is_left_to_them(database: Database) -> None:
    database.execute(TABLE)
    first = database.run()
    second = Run({**first.config, "name": "another"})
    database.runs.append(second)
    with pytest.raises(ConnectorError, match="is in use by ringfence local"):
        second.start()
    database.execute(insert(1, 2))
    database.await_all(first)
    assert ids(first.records) == [1, 2]


def poll_for_ever(run: Run) -> None:
    while True:
        run.task.poll()


def test_a_new_attempt_takes_the_slot_and_the_old_one_does_not_take_it_back(database: Database) -> None:
    database.execute(TABLE)
    zombie = database.run()
    zombie.poll()
    second = database.run(zombie.offset)
    with pytest.raises(RetriableError, match="has ended"):
        poll_for_ever(zombie)
    with pytest.raises(RetriableError, match="is in use"):
        zombie.task.poll()
    database.execute(insert(1, 2))
    database.await_all(second)
    assert ids(second.records) == [1, 2]


def test_a_lost_connection_in_the_middle_of_a_transaction_doubles_nothing(database: Database) -> None:
    database.execute(TABLE)
    run = database.run(max_batch_size="7")
    database.execute(insert(1, 100), insert(101, 150))
    while len(ids(run.records)) < 30:
        run.poll()
    database.execute(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = "
        "current_database()"
    )
    database.await_all(run)
    assert ids(run.records) == list(range(1, 151))


def test_subtransactions_and_prepared_transactions(database: Database) -> None:
    database.execute(TABLE)
    run = database.run()
    database.execute(
        f"BEGIN; {insert(1, 2)}; SAVEPOINT a; {insert(3, 4)}; ROLLBACK TO a; SAVEPOINT b; {insert(5, 6)}; RELEASE b; "
        "COMMIT"
    )
    for end, first in (("COMMIT", 7), ("ROLLBACK", 9)):
        gid = f"{database.name}_{first}"
        database.execute(f"BEGIN; {insert(first, first + 1)}; PREPARE TRANSACTION '{gid}'")
        database.execute(insert(first + 20, first + 20), f"{end} PREPARED '{gid}'")
    database.await_all(run)
    assert ids(run.records) == [1, 2, 5, 6, 27, 7, 8, 29]


def test_ddl_between_and_inside_of_transactions(database: Database) -> None:
    database.execute(TABLE, insert(1, 2))
    run = database.run()
    database.execute(
        "UPDATE t SET v = 'a' WHERE id = 1",
        "ALTER TABLE t ADD COLUMN n integer NOT NULL DEFAULT 5",
        "BEGIN; UPDATE t SET v = 'b' WHERE id = 1; ALTER TABLE t ALTER COLUMN n TYPE text; "
        "ALTER TABLE t RENAME COLUMN n TO m; UPDATE t SET m = 'six' WHERE id = 1; COMMIT",
        "ALTER TABLE t DROP COLUMN v",
        "DELETE FROM t WHERE id = 2",
    )
    database.await_all(run)
    rows = [
        dict(zip(row.schema.names, row.values, strict=True))
        for record in run.records
        if isinstance(record.value, Struct) and "after" in record.value.schema.names
        for row in [record.value["after"]]
        if isinstance(row, Struct)
    ]
    assert rows == [
        {"id": 1, "v": "a"},
        {"id": 1, "v": "b", "n": 5},
        {"id": 1, "v": "b", "m": "six"},
    ]


def test_columns_tables_and_keys_are_chosen(database: Database) -> None:
    database.execute(
        TABLE, "CREATE TABLE secret (id integer PRIMARY KEY, card text)", "ALTER TABLE t ADD COLUMN k text"
    )
    run = database.run(
        table_exclude_list="public.secret", column_exclude_list="public.t.v", message_key_columns="public.t:k,id"
    )
    database.execute("INSERT INTO secret VALUES (1, '4111')", "INSERT INTO t VALUES (1, 'hidden', 'key')")
    database.await_all(run)
    (record,) = [record for record in run.records if record.topic != "local.message"]
    assert isinstance(record.value, Struct)
    assert isinstance(record.key, Struct)
    after = record.value["after"]
    assert isinstance(after, Struct)
    assert after.schema.names == ("id", "k")
    assert list(record.key.values) == ["key", 1]


def _without_replication(database: Database) -> str:
    name = f"{database.name}_user"
    database.execute(f"CREATE ROLE {name} LOGIN")
    return name


Change = Callable[[Database], dict[str, str]]


@pytest.mark.parametrize(
    ("change", "setting", "remedy"),
    [
        (lambda db: {"database.user": _without_replication(db)}, "database.user", "ALTER ROLE"),
        (lambda db: {"publication.autocreate.mode": "disabled"}, "publication.name", "CREATE PUBLICATION"),
        (lambda db: {"table.include.list": "public.none"}, "table.include.list", "Correct them"),
        (lambda db: {"transaction.boundary": "poll"}, "transaction.boundary", "transaction.boundary=connector"),
        (lambda db: {"database.port": "1"}, "database.hostname", "pg_hba.conf"),
        (lambda db: {"database.hostname": "/var/run/postgresql"}, "database.hostname", "one server"),
        (lambda db: {"column.mask.hash.SHA-256.with.salt.x": "public.t.v"}, None, "Remove it"),
    ],
    ids=["replication", "publication", "tables", "boundary", "connection", "socket", "unsupported"],
)
def test_validation_says_how_to_mend_it(database: Database, change: Change, setting: str | None, remedy: str) -> None:
    from ringfence.connectors.builtin.postgres.connector import PostgresSourceConnector
    from tests.postgres.local import config_of

    database.execute(TABLE)
    config = config_of(database.server, database.name)
    assert PostgresSourceConnector().validate(config) == {}
    changed = change(database)
    errors = PostgresSourceConnector().validate({**config, **changed})
    assert remedy in " ".join(errors[setting or next(iter(changed))])


def test_a_debezium_configuration_needs_no_boundary(database: Database) -> None:
    """Kafka Connect has no boundary in it: the connector chooses its own, also for tables without a key."""
    from ringfence.connectors.builtin.postgres.connector import PostgresSourceConnector
    from tests.postgres.local import config_of

    database.execute("CREATE TABLE keyless (v text)", "ALTER TABLE keyless REPLICA IDENTITY FULL")
    config = {**config_of(database.server, database.name), "exactly.once.support": "required"}
    del config["transaction.boundary"]
    assert PostgresSourceConnector().validate(config | {"snapshot.mode": "initial"}) == {}


def test_a_rollback_and_an_unread_transaction_leave_nothing(database: Database) -> None:
    database.execute(TABLE, "CREATE TABLE other (id integer)")
    run = database.run(table_include_list="public.t")
    database.execute(f"BEGIN; {insert(1, 2)}; ROLLBACK", "INSERT INTO other VALUES (1)", insert(3, 3))
    database.await_all(run)
    assert ids(run.records) == [3]
    with pytest.raises(psycopg.errors.UniqueViolation):
        database.execute(insert(3, 3))


def test_a_preview_shows_rows_and_changes_nothing_at_the_server(database: Database) -> None:
    database.execute(TABLE, insert(1, 100), "CREATE TABLE secret (id integer)", "INSERT INTO secret VALUES (1)")
    run = database.run(postgres_trial="true", table_exclude_list="public.secret")
    shown = [record.value for record in run.task.poll() or () if isinstance(record.value, Struct)]
    assert [value["op"] for value in shown] == ["r"] * 5
    assert database.value("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == 0
    assert database.value("SELECT count(*) FROM pg_publication") == 0


def test_settings_of_the_database_do_not_change_values(database: Database) -> None:
    for setting in (
        "bytea_output = escape",
        "datestyle = 'SQL, DMY'",
        "intervalstyle = iso_8601",
        "timezone = 'Asia/Tokyo'",
    ):
        database.execute(f"ALTER DATABASE {database.name} SET {setting}")
    database.execute(
        "CREATE TABLE t (id integer PRIMARY KEY, b bytea, d date, i interval, z timestamptz)",
        r"INSERT INTO t VALUES (1, '\x3031', '2024-02-29', '1 mon', '2024-02-29 12:00:00+00')",
    )
    run = database.run(snapshot_mode="initial")
    run.poll_until(lambda: len(ids(run.records)) == 1)
    database.execute("UPDATE t SET id = 2")
    database.await_all(run)
    rows = [one.value["after"] for one in run.records if isinstance(one.value, Struct) and one.topic.endswith(".t")]
    values = [list(row.values)[1:] for row in rows if isinstance(row, Struct)]
    assert values == [[b"01", 19782, 2_629_800_000_000, "2024-02-29T12:00:00.000000Z"]] * 2


def test_changes_of_before_a_type_was_dropped_are_read(database: Database) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE t (id integer PRIMARY KEY, m mood, a mood[])"
    )
    run = database.run()
    database.await_all(run)
    run.stop()
    database.execute("INSERT INTO t VALUES (1, 'ok', '{sad}')", "DROP TYPE mood CASCADE", "INSERT INTO t VALUES (2)")
    again = database.again(run)
    database.await_all(again)
    rows = [one.value["after"] for one in again.records if isinstance(one.value, Struct) and one.topic.endswith(".t")]
    assert [list(row.values) for row in rows if isinstance(row, Struct)] == [[1, "ok", "{sad}"], [2]]
