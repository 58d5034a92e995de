"""A slot that is dropped before anything is committed loses nothing: the task begins again."""

import psycopg
import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.postgres import slots, task
from ringfence.connectors.builtin.postgres.session import Session
from tests.postgres.local import Database, drop_slots
from tests.support.snapshot_tables import TABLE, ids, insert


def drop(database: Database) -> None:
    with psycopg.connect(database.connection.info.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [database.name])


def leave_slot(database: Database) -> None:
    """That of an earlier connector, with changes that the new one is not to see as a gap."""
    database.execute(f"SELECT pg_create_logical_replication_slot('{database.name}', 'pgoutput')")


@pytest.mark.parametrize("mode", ["no_data", "initial"])
def test_a_slot_that_is_dropped_after_it_was_found(
    database: Database, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    database.execute(TABLE, insert(1, 2))
    leave_slot(database)
    check = slots.check_slot
    done: list[str] = []

    def check_and_drop(name: str, slot: slots.Slot | None, database_name: str, offset: int | None) -> None:
        check(name, slot, database_name, offset)
        if not done:
            done.append(name)
            drop(database)

    monkeypatch.setattr(slots, "check_slot", check_and_drop)
    run = database.run(snapshot_mode=mode)
    if mode == "initial":
        run.poll_until(lambda: len(ids(run.records)) == 2)
    database.execute(insert(3, 4))
    database.await_all(run)
    assert ids(run.records) == ([1, 2] if mode == "initial" else []) + [3, 4]
    assert done


def test_a_slot_that_is_dropped_while_it_is_created(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute(TABLE)
    create = slots.create_slot
    times: list[str] = []

    def create_and_drop(session: Session, name: str, *, failover: bool) -> None:
        create(session, name, failover=failover)
        times.append(name)
        if len(times) == 1:
            drop(database)

    monkeypatch.setattr(slots, "create_slot", create_and_drop)
    run = database.run()
    database.execute(insert(1, 2))
    database.await_all(run)
    assert ids(run.records) == [1, 2]
    assert len(times) == 2


def test_a_slot_whose_stream_is_ended_and_that_is_dropped(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first records were returned."""
    monkeypatch.setattr(task, "_QUIET_SECONDS", 3600.0)
    database.execute(TABLE)
    run = database.run()
    run.task.poll()  # the position, which is not committed
    drop_slots(database.connection, database.name)
    database.execute(insert(1, 1))
    run.poll_until(lambda: run.offset is not None)
    database.execute(insert(2, 3))
    database.await_all(run)
    assert ids(run.records) == [2, 3]


def test_a_slot_that_is_dropped_later_is_a_gap(database: Database) -> None:
    database.execute(TABLE)
    run = database.run()
    database.execute(insert(1, 2))
    database.await_all(run)
    drop_slots(database.connection, database.name)
    with pytest.raises(ConnectorError, match="no longer exists"):
        run.poll_until(lambda: False, 20)
