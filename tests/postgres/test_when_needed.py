"""`snapshot.mode=when_needed`: the rows are read again where changes were lost, and only there."""

from collections.abc import Callable

import pytest

from ringfence.connectors.api import ConnectorError, SourceRecord
from ringfence.connectors.builtin.postgres.offsets import share_config
from ringfence.connectors.builtin.postgres.settings import find_unsupported
from tests.postgres.local import Database, Run, loopback
from tests.support.postgres import LOGICAL, new_postgres
from tests.support.snapshot_envelopes import envelopes, finish, ops
from tests.support.waiting import eventually


def make_loss(database: Database, run: Run, kind: str) -> None:
    """What was changed since the last commit cannot be had from the slot any more."""
    run.stop()
    await_released(database)
    database.execute("UPDATE t SET v = 7 WHERE id = 2", "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (9, 9)")
    if kind == "dropped":
        database.execute(f"SELECT pg_drop_replication_slot('{database.name}')")
    else:
        database.execute(f"SELECT pg_replication_slot_advance('{database.name}', pg_current_wal_lsn())")


def await_released(database: Database) -> None:
    slot = f"FROM pg_replication_slots WHERE slot_name = '{database.name}' AND active"
    eventually(lambda: database.value(f"SELECT count(*) {slot}") == 0, 30, "the slot to be released", pause=0.1)


@pytest.mark.parametrize("kind", ["dropped", "ahead"])
def test_when_needed_reads_the_rows_again_where_changes_were_lost(database: Database, kind: str) -> None:
    database.execute(
        "CREATE TABLE t (id integer PRIMARY KEY, v integer)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"
    )
    run = database.run(None, snapshot_mode="when_needed")
    assert ops(finish(database, run)) == [("r", 1), ("r", 2), ("r", 3)]
    make_loss(database, run, kind)
    with pytest.raises(ConnectorError, match="no longer exists" if kind == "dropped" else "ahead of"):
        database.again(run, snapshot_mode="initial")
    killed = database.again(run)  # the slot is there, and nothing is committed
    killed.stop()
    await_released(database)
    again = database.again(run)
    database.execute("UPDATE t SET v = 8 WHERE id = 1")
    found = finish(database, again)
    assert ops(found) in ([("r", 1), ("r", 2), ("r", 9)], [("r", 1), ("r", 2), ("r", 9), ("u", 1)])
    last = {key["id"]: value["after"]["v"] for key, value in envelopes(found)}
    assert last == {1: 8, 2: 7, 9: 9}
    later = database.again(again)
    database.execute("DELETE FROM t WHERE id = 9")
    assert ops(finish(database, later)) == [("d", 9)]


def test_a_slot_that_the_server_has_invalidated_is_refused_and_replaced(unique: Callable[[str], str]) -> None:
    """The server keeps no more log than max_slot_wal_keep_size for it."""
    with loopback(), new_postgres({**LOGICAL, "max_slot_wal_keep_size": "1MB"}) as server:
        database = Database(server, unique("invalidated"))
        try:
            database.execute(
                "CREATE TABLE t (id integer PRIMARY KEY, v integer)", "INSERT INTO t VALUES (1, 1), (2, 2)"
            )
            run = database.run(None, snapshot_mode="when_needed")
            assert ops(finish(database, run)) == [("r", 1), ("r", 2)]
            run.stop()
            await_released(database)
            database.execute("DELETE FROM t WHERE id = 2")

            def invalidated() -> bool:
                database.execute("SELECT pg_logical_emit_message(false, 'x', 'y'), pg_switch_wal()", "CHECKPOINT")
                return bool(database.value("SELECT bool_and(wal_status = 'lost') FROM pg_replication_slots"))

            eventually(invalidated, 60, "the slot to be invalidated", pause=0.1)
            with pytest.raises(ConnectorError, match=r"has invalidated the replication slot.*max_slot_wal_keep_size"):
                database.again(run, snapshot_mode="initial")
            assert ops(finish(database, database.again(run))) == [("r", 1)]
        finally:
            database.close()


def test_the_plan_of_the_snapshot_before_is_not_taken_for_the_new_one(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)", "INSERT INTO t VALUES (1, 1)")
    run = database.run(None, snapshot_mode="when_needed")
    finish(database, run)
    make_loss(database, run, "dropped")
    again = database.again(run)
    read: list[SourceRecord] = []

    def poll() -> bool:
        read.extend(one for one in again.task.poll() or () if one.topic)
        return len(read) >= 2

    eventually(poll, 30, lambda: read, pause=0.05)
    for _ in range(6):
        poll()  # nothing more comes
    assert [one.topic for one in read] == ["local.public.t"] * 2, read
    assert again.task._streaming is None, "nothing of the new one is committed yet"


def test_when_needed_does_not_begin_again_while_several_tasks_share_a_snapshot(database: Database) -> None:
    database.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)", "INSERT INTO t VALUES (1, 1)")
    run = database.run(None, snapshot_mode="when_needed")
    finish(database, run)
    make_loss(database, run, "dropped")
    with pytest.raises(ConnectorError, match="no longer exists"):
        database.again(run, **{key.replace(".", "_"): value for key, value in share_config(0, 2).items()})


@pytest.mark.parametrize("mode, words", [("always", "incremental snapshot"), ("never", "Use no_data")])
def test_modes_that_are_not_there_say_what_to_use(mode: str, words: str) -> None:
    (said,) = find_unsupported({"snapshot.mode": mode})["snapshot.mode"]
    assert words in said
