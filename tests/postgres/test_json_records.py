"""The bytes that the task makes itself are those of the converters, byte for byte."""

import time
from collections.abc import Iterator, Sequence
from itertools import accumulate

import psycopg
import pytest
from psycopg import sql

from ringfence.connectors.api import ConnectorError, SerializedRecords, SourceRecord
from ringfence.connectors.api.records import count_records
from ringfence.connectors.builtin.postgres.json_records import JsonRecords, find_json_records
from ringfence.connectors.builtin.postgres.offsets import Origin, Position
from ringfence.connectors.builtin.postgres.pgoutput import Begin, Relation
from ringfence.connectors.builtin.postgres.records import SourceTransaction
from ringfence.connectors.builtin.postgres.session import Setup
from ringfence.connectors.builtin.postgres.snapshot_reading import split_row
from ringfence.connectors.builtin.postgres.stream import Stream, TransactionReader, position_of
from ringfence.connectors.builtin.postgres.tables import find_relation
from ringfence.engine.spark.task_process import Conversion
from ringfence.fencing.records.record_path import RecordPath
from tests.postgres.changes import CHANGES, TABLES
from tests.postgres.local import Database, Run, config_of, loopback
from tests.support.postgres import Postgres

HOSTILE = (
    """CREATE TABLE "100%" (
        id integer PRIMARY KEY, "50%b" text, "a""b" text DEFAULT 'x', "grüße" text, "\\n" boolean, f float8,
        late timestamptz
    )""",
    """INSERT INTO "100%" VALUES
        (1, E'\\x01\\x1f"\\\\/', null, 'Grüße 🎉 ', true, 'NaN', '2024-02-29 1:2:3.4+00'),
        (2, '%b %s %(x)s', '7777777777777777777', '', null, 1e22, '2024-02-29 01:02:03.123456+00'),
        (3, null, '', 'x', false, -0.0, 'infinity'),
        (4, 'a', 'b', 'c', false, 5e-324, '0044-03-15 01:02:03.123456 BC')""",
    'ALTER TABLE "100%" REPLICA IDENTITY FULL',
    """UPDATE "100%" SET "50%b" = 'y'""",
    """UPDATE "100%" SET id = 10 WHERE id = 1""",
    """ALTER TABLE "100%" ADD COLUMN later integer NOT NULL DEFAULT 5, DROP COLUMN f""",
    """INSERT INTO "100%" (id) VALUES (11)""",
    'DELETE FROM "100%"',
)
Call = tuple[object, ...]
Messages = Sequence[bytes]


class Given:
    """What a server sent, and what reads it."""

    def __init__(self, setup: Setup, messages: Messages) -> None:
        self.setup = setup
        self.messages = messages

    def rows(self, relation: Relation) -> list[list[bytes | None]]:
        """All that a table has."""
        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in relation.columns)
        table = sql.Identifier(relation.schema, relation.name)
        statement = sql.SQL("COPY (SELECT {} FROM ONLY {}) TO STDOUT").format(names, table)
        with self.setup.session.connection.cursor().copy(statement) as copy:
            return [split_row(bytes(line)[:-1]) for line in copy]

    def read(self, json: JsonRecords | None) -> list[SourceRecord]:
        setup = self.setup
        reader = TransactionReader(
            Position(0),
            Origin("system"),
            setup.new_maker(),
            setup.selection,
            setup.new_describer(),
            setup.partition,
            batch_size=1_000_000,
            json=json,
        )
        for message in self.messages:
            reader.take(message)
        return reader.hand_over()


@pytest.fixture(scope="module")
def given(server: Postgres) -> Iterator[Given]:
    with loopback():
        database = Database(server, "json_records")
        database.execute(TABLES, "CREATE PUBLICATION p FOR ALL TABLES")
        database.execute("SELECT pg_create_logical_replication_slot('json_records', 'pgoutput')")
        for change in (*CHANGES, *HOSTILE):
            database.execute(change)
        end = database.value("SELECT (pg_current_wal_lsn() - '0/0')::int8")
        setup = Setup(config_of(server, database.name, skipped_operations="none"))
        messages: list[bytes] = []

        def take(message: bytes | memoryview) -> bool:
            messages.append(bytes(message))
            return False

        stream = Stream(setup.server, database.name, "p", 0, messages=True)
        while stream.server_end < end or not messages or position_of(messages[-1]) < end - 1000:
            stream.receive(take, 0.2)
        stream.close()
        yield Given(setup, messages)
        setup.session.close()
        database.close()


CONVERTERS = dict.fromkeys(["key.converter", "value.converter"], "org.apache.kafka.connect.json.JsonConverter")
SETTINGS: list[dict[str, str]] = [
    {},
    {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"},
    {"value.converter.schemas.enable": "false"},
    {"value.converter.decimal.format": "NUMERIC", "key.converter.decimal.format": "NUMERIC"},
    {"value.converter.replace.null.with.default": "false", "key.converter.replace.null.with.default": "false"},
    {"header.converter": "org.apache.kafka.connect.storage.StringConverter"},
]


class Spec:
    """What says which converters there are."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.connector_config = CONVERTERS | settings
        self.worker_settings: dict[str, str] = {}


def calls_of(conversion: Conversion, records: Sequence[SourceRecord]) -> list[Call]:
    """What is produced, or why it cannot be."""
    path = RecordPath(conversion)
    made: list[Call] = []
    for record in records:
        try:
            columns = path.prepare([record]).columns
        except ConnectorError as error:
            made.append((str(error), []))
            continue
        for part in columns:
            made += [(topic, value, key, list(headers or [])) for topic, value, key, _, _, headers in part.records()]
    return made


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: ", ".join(settings) or "defaults")
def test_the_bytes_are_those_of_the_converters(
    given: Given, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_456_789)
    conversion = Conversion(Spec(settings))
    maker = given.setup.new_maker()
    quick = find_json_records(conversion.converters, maker)
    assert quick is not None
    plain, ours = given.read(None), given.read(quick)

    expected, found = calls_of(conversion, plain), calls_of(conversion, ours)

    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        assert _without_run_id(other) == _without_run_id(one), plain[number]
    ends = list(accumulate(count_records([record]) for record in ours))
    assert [record.source_offset for record in ours] == [plain[end - 1].source_offset for end in ends]
    made_quickly = sum(len(record) for record in ours if isinstance(record, SerializedRecords))
    assert made_quickly > 0.6 * len(plain)  # else nothing is compared here


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: ", ".join(settings) or "defaults")
def test_the_bytes_of_rows_that_are_read_are_those_of_the_converters(
    given: Given, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_456_789)
    conversion, setup = Conversion(Spec(settings)), given.setup
    maker, describe = setup.new_maker(), setup.new_describer()
    quick = find_json_records(conversion.converters, maker)
    assert quick is not None
    at = SourceTransaction(Begin(5, 6, 0), {"lsn_commit": 5}, "null", snapshot="true")
    compared = 0
    for (oid,) in setup.session.query("SELECT oid::int8 FROM pg_class WHERE relkind = 'r' AND relnamespace >= 2200"):
        found = find_relation(setup.session.query, oid)
        assert found is not None
        table = describe(found[0])
        for row in given.rows(found[0]):
            plain: list[SourceRecord] = []
            ours: list[SourceRecord] = []
            maker.read(plain, table, row, 5, at)
            run = quick.begin_run(table, at)
            if run is not None and run.append_read(row, 5):
                run.end(ours)
                compared += 1
                assert calls_of(conversion, ours) == calls_of(conversion, plain)
    assert compared > 25


def _without_run_id(call: Call) -> Call:
    """Each task has one."""
    *rest, headers = call
    assert isinstance(headers, list)
    return (*rest, [(name, value) for name, value in headers if not name.endswith("runId")])


@pytest.mark.parametrize(
    "settings",
    [
        {"value.converter": "org.apache.kafka.connect.storage.StringConverter"},
        {"key.converter": "org.apache.kafka.connect.storage.StringConverter"},
        {"value.converter.decimal.format": "NUMERIC"},
        {"transforms": "drop", "transforms.drop.type": "org.apache.kafka.connect.transforms.DropHeaders",
         "transforms.drop.headers": "x"},
    ],
    ids=["values", "keys", "settings", "transforms"],
)  # fmt: skip
def test_other_converters_and_transforms_get_values(given: Given, settings: dict[str, str]) -> None:
    conversion = Conversion(Spec(settings))
    assert find_json_records(conversion.converters, given.setup.new_maker()) is None


def test_counted_transactions_get_values(database: Database) -> None:
    """Each record has its number in the transaction."""
    database.execute("CREATE TABLE t (id integer PRIMARY KEY)")
    run = Run(
        config_of(database.server, database.name, provide_transaction_metadata="true", **CONVERTERS), serialized=True
    )
    database.runs.append(run)
    run.start()
    database.execute("INSERT INTO t VALUES (1)")
    database.await_all(run)
    assert not any(isinstance(record, SerializedRecords) for record in run.records)


def test_serialized_records_survive_a_lost_connection(database: Database) -> None:
    """What is read again of a transaction is not handed over again."""
    database.execute("CREATE TABLE t (id integer PRIMARY KEY)")
    run = Run(config_of(database.server, database.name, **CONVERTERS), serialized=True)
    database.runs.append(run)
    run.start()
    database.execute("INSERT INTO t SELECT generate_series(1, 25000)")
    run.poll_until(lambda: count_records(run.records) > 5000)
    with psycopg.connect(database.server.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s", [database.name]
        )
    database.await_all(run)
    keys = [key for records in run.committed if isinstance(records, SerializedRecords) for key in records.keys]
    assert len(keys) == len(set(keys)) == 25_000
