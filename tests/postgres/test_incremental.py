"""Incremental snapshots against a real server, without Kafka: requests, chunks between changes, restarts, refusals."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest

from ringfence.connectors.builtin.postgres.incremental_snapshots import IncrementalSnapshots
from ringfence.connectors.builtin.postgres.snapshot_content import Window
from ringfence.connectors.builtin.postgres.snapshot_reading import RangeReading
from ringfence.connectors.sdk.snapshot_signals import EXECUTE, PAUSE, RESUME, STOP, parse_request
from tests.connectors.fakes import FakeContext
from tests.postgres.local import Database
from tests.support.incremental_snapshots import TABLE, fill, read_all, rows_read, send, state

SIGNALS = "CREATE TABLE signals (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"
TEN = {"incremental_snapshot_chunk_size": "10"}


def find_wrong(records: Sequence[Any], start: dict[int, int], end: Mapping[int, int]) -> list[str]:
    """Versions only ever grow. A row that is read is as it was told last, or newer, and what made it so is not told
    again; what made it go is."""
    rows: dict[int, Any] = dict(start)
    wrong = []
    for one in records:
        if one.value is None or one.topic.endswith(".message"):
            continue
        key, op, after = one.key["id"], one.value["op"], one.value["after"]
        known, version = rows.get(key), after["v"] if after is not None else -1
        if op == "d":
            if rows.pop(key, None) is None:
                wrong.append(f"{key} deleted, and was not there")
            continue
        if op == "r" and known is not None and version < known:
            wrong.append(f"{key} goes back from {known} to {version}")
        if op == "c" and known is not None:
            wrong.append(f"{key} created twice")
        if op == "u" and (known is None or version <= known):
            wrong.append(f"{key} goes from {known} to {version}")
        rows[key] = version
    return wrong + (["another final state"] if rows != end else [])


def test_a_table_is_read_again_in_chunks_while_changes_go_on(database: Database) -> None:
    fill(database, 95)
    run = database.run(None, **TEN)
    send(run, EXECUTE, "public.t")
    run.poll_until(lambda: len(rows_read(run.records)) >= 20)
    database.execute(
        "UPDATE t SET v = 1 WHERE id IN (3, 90)", "DELETE FROM t WHERE id = 91", "INSERT INTO t VALUES (200, 5)"
    )
    read_all(run)
    database.await_all(run)
    found = rows_read(run.records)
    assert sorted(found) == found
    assert set(found) == set(range(1, 96)) - {91}
    assert state(run).note == "public.t: 94 rows."
    ends: dict[int, int] = dict(database.connection.execute("SELECT id, v FROM t").fetchall())
    assert find_wrong(run.records, dict.fromkeys(range(1, 96), 0), ends) == []
    assert run.committed == run.records


@pytest.mark.parametrize("chunk", [pytest.param("7", marks=pytest.mark.slow), "1000"])
def test_what_changes_beside_a_chunk_is_told_once(
    database: Database, monkeypatch: pytest.MonkeyPatch, chunk: str
) -> None:
    """Transactions commit just before and just behind each snapshot, and the stream has not seen them."""
    fill(database, 60)
    database.execute("CREATE SEQUENCE n")
    choice, open_ = random.Random(1), RangeReading._open
    told = dict.fromkeys(range(1, 61), 0)
    others = [psycopg.connect(database.connection.info.dsn, autocommit=True) for _ in range(2)]
    others[1].autocommit = False

    def change(connection: "psycopg.Connection[Any]", rows: range) -> None:
        for _ in range(4):
            row, other = choice.choice(rows), choice.choice(rows)
            match choice.randrange(4):
                case 0:
                    connection.execute("DELETE FROM t WHERE id = %s", [row])
                case 1:
                    connection.execute("INSERT INTO t VALUES (%s, nextval('n')) ON CONFLICT DO NOTHING", [row])
                case 2 if row != other:
                    connection.execute("DELETE FROM t WHERE id = %s", [other])
                    connection.execute("UPDATE t SET id = %s, v = nextval('n') WHERE id = %s", [other, row])
                case _:
                    connection.execute("UPDATE t SET v = nextval('n') WHERE id = %s", [row])

    def between(self: RangeReading, *arguments: Any) -> None:
        change(others[0], range(1, 41))
        change(others[1], range(41, 61))  # runs while the snapshot is taken
        open_(self, *arguments)
        others[1].commit()
        change(others[0], range(1, 41))

    run = database.run(None, incremental_snapshot_chunk_size=chunk)
    monkeypatch.setattr(RangeReading, "_open", between)
    for _ in range(5 if chunk == "1000" else 2):
        send(run, EXECUTE, "public.t")
        read_all(run)
    monkeypatch.setattr(RangeReading, "_open", open_)
    database.await_all(run)
    for one in others:
        one.close()
    ends: dict[int, int] = dict(database.connection.execute("SELECT id, v FROM t").fetchall())
    assert find_wrong(run.records, told, ends) == []


def test_a_restart_goes_on_behind_the_last_chunk(database: Database) -> None:
    fill(database, 100)
    database.execute("CREATE TABLE other (id integer PRIMARY KEY)", "INSERT INTO other VALUES (1), (2)")
    run = database.run(None, **TEN)
    send(run, EXECUTE, "public.*")
    run.poll_until(lambda: len(rows_read([*run.records], "public.t")) >= 40)
    first = list(run.committed)
    again = database.again(run)
    assert isinstance(run.task.context, FakeContext)
    assert isinstance(again.task.context, FakeContext)
    again.task.context.signals = run.task.context.signals
    read_all(again)
    assert rows_read([*first, *again.records]) == list(range(1, 101))
    assert rows_read([*first, *again.records], "public.other") == [1, 2]


def test_debeziums_signals_come_from_a_table_and_are_committed_with_its_row(database: Database) -> None:
    fill(database, 50)
    database.execute(SIGNALS)
    run = database.run(None, **TEN, signal_data_collection="public.signals", table_include_list="public.t")

    def signal(number: int, kind: str, **data: object) -> None:
        database.connection.execute("INSERT INTO signals VALUES (%s, %s, %s)", [str(number), kind, json.dumps(data)])

    tables = {"data-collections": ["public.t"], "type": "incremental"}
    with database.connection.transaction():
        signal(1, EXECUTE, **tables)
        signal(2, PAUSE, type="incremental")
    run.poll_until(lambda: state(run).paused)
    for _ in range(5):
        run.poll()
    assert rows_read(run.records) == []
    again = database.again(run)
    assert state(again).paused
    signal(3, RESUME, type="incremental")
    again.poll_until(lambda: bool(rows_read(again.records)))
    signal(4, STOP, type="incremental")
    again.poll_until(lambda: not state(again).queue)
    assert state(again).note == "Stopped: 1 table."
    assert len(rows_read(again.records)) < 50
    signal(5, EXECUTE, **tables)
    again.poll_until(lambda: state(again).note == "public.t: 50 rows.")
    last = database.again(again)
    for _ in range(3):
        last.poll()
    assert rows_read(last.records) == []  # no signal is carried out twice
    assert not [one for one in last.records if "signals" in one.topic]


@pytest.mark.slow
def test_large_values_that_an_update_does_not_touch_are_not_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(TABLE, "ALTER TABLE t ALTER COLUMN big SET STORAGE EXTERNAL")
    database.execute("INSERT INTO t SELECT g, 0, repeat('y', 9000) FROM generate_series(1, 20) g")
    open_ = RangeReading._open

    def then_change(self: RangeReading, *arguments: Any) -> None:
        open_(self, *arguments)
        database.execute("UPDATE t SET v = v + 1 WHERE id < 5")

    run = database.run(None, **TEN)
    monkeypatch.setattr(RangeReading, "_open", then_change)
    send(run, EXECUTE, "public.t")
    read_all(run)
    first: dict[int, Any] = {}
    for one in run.records:
        value: Any = one.value
        first.setdefault(one.key["id"], value["after"]["big"])  # type: ignore[index]
    assert set(first.values()) == {"y" * 9000}


def test_it_begins_behind_the_initial_snapshot_of_a_quiet_server(database: Database) -> None:
    """No transaction comes that would show that the stream has passed what the initial snapshot contains."""
    fill(database, 5)
    run = database.run(None, snapshot_mode="initial")
    database.execute("CREATE SEQUENCE n")  # what is read from here on is newer than the slot
    run.poll_until(lambda: len(run.committed) == 5)
    first = len(run.records)
    send(run, EXECUTE, "public.t")
    run.poll_until(lambda: state(run).note == "public.t: 5 rows.", 20)
    assert rows_read(run.records[first:]) == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_truncate_beside_a_chunk_has_it_read_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(database, 30)
    open_, left = RangeReading._open, [1]

    def truncate(self: RangeReading, *arguments: Any) -> None:
        if left:
            left.pop()
            database.execute("TRUNCATE t", "INSERT INTO t VALUES (7, 7)")
        open_(self, *arguments)

    run = database.run(None, skipped_operations="none")
    monkeypatch.setattr(RangeReading, "_open", truncate)
    send(run, EXECUTE, "public.t")
    read_all(run)
    values: list[Any] = [one.value for one in run.records if one.topic == "local.public.t"]
    assert [one["op"] for one in values] == ["t", "c", "r"]


@pytest.mark.slow
def test_tables_that_are_gone_empty_or_locked(database: Database) -> None:
    fill(database, 30)
    database.execute("CREATE TABLE a (id integer PRIMARY KEY)", "CREATE TABLE b (id integer PRIMARY KEY)")
    run = database.run(None, **TEN)
    send(run, EXECUTE, "public.*")
    send(run, PAUSE)
    run.poll_until(lambda: state(run).paused)
    database.execute("DROP TABLE b")
    send(run, RESUME)
    run.poll_until(lambda: bool(rows_read(run.records)))
    before = len(rows_read(run.records))
    with psycopg.connect(database.connection.info.dsn) as other:
        other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        database.execute("INSERT INTO a VALUES (1)")
        run.poll_until(lambda: any("public.a" in one.topic for one in run.records))  # the stream goes on
        assert len(rows_read(run.records)) == before < 30
    read_all(run)
    assert rows_read(run.records) == list(range(1, 31))


@pytest.mark.parametrize(
    "kind, data, words",
    [
        ("log", {}, "use execute-snapshot"),
        (EXECUTE, {}, "must name the tables"),
        (EXECUTE, {"data-collections": "public.t"}, "must be a list"),
        (EXECUTE, {"data-collections": ["("]}, "not a regular expression"),
        (EXECUTE, {"data-collections": ["a"], "type": "blocking"}, "use incremental"),
        (EXECUTE, {"data-collections": ["a"], "additional-conditions": [{"filter": "id < 3"}]}, "whole table"),
        (EXECUTE, {"data-collections": ["a"], "surrogate-key": "b"}, "identified by the primary key"),
        (EXECUTE, "{", "not JSON"),
        (STOP, "[]", "must be a JSON object"),
    ],
)
def test_requests_that_mean_something_else_are_refused(kind: str, data: object, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        parse_request(kind, data)


@pytest.mark.slow
def test_a_request_that_cannot_be_carried_out_says_so_and_fails_nothing(database: Database) -> None:
    fill(database, 3)
    database.execute("CREATE TABLE bare (id integer)", "ALTER TABLE bare REPLICA IDENTITY FULL")
    run = database.run(None)
    send(run, EXECUTE, "public.nothing")
    read_all(run)
    assert "no captured and published table matches public.nothing" in state(run).note
    send(run, EXECUTE, "public.bare")
    read_all(run)
    assert "public.bare has no primary key" in state(run).note
    assert run.records == []


RULES = {
    "nothing is left out": (Window, "note", lambda self, change, message, xid, records: None),
    "what a delete has taken is left out": (
        Window,
        "note",
        lambda self, change, message, xid, records: (
            self.contained.update(map(id, records)) if self._view.has(xid) else None
        ),
    ),
    "the stream is not read up to the chunk's end": (
        IncrementalSnapshots,
        "_await",
        lambda self, stream, window, start: True,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_something_is_wrong_without_a_part_of_the_rule(
    database: Database, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setattr(*RULES[rule])
    with pytest.raises(AssertionError):
        test_what_changes_beside_a_chunk_is_told_once(database, monkeypatch, "1000")
