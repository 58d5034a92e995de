"""What an incremental snapshot waits for: transactions that snapshots of the database do not see yet."""

import threading

import psycopg
import pytest

from ringfence.connectors.sdk.snapshot_signals import EXECUTE, PAUSE, RESUME
from tests.postgres.local import Database
from tests.support.incremental_snapshots import fill, read_all, rows_read, send, state
from tests.support.waiting import eventually


def test_it_waits_for_transactions_that_run_when_it_is_asked_for(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Each time: those of the first snapshot have ended long before the second."""
    caplog.set_level("INFO")
    fill(database, 5)
    run = database.run(None)
    for _ in range(2):
        before = len(run.records)
        caplog.clear()
        with psycopg.connect(database.connection.info.dsn) as other:
            other.execute("UPDATE t SET v = v + 1 WHERE id = 1")
            send(run, EXECUTE, "public.t")
            run.poll_until(lambda: "waits for 1 transactions" in caplog.text)
            assert rows_read(run.records[before:]) == []
            other.commit()
            read_all(run)
        assert rows_read(run.records[before:]) == [1, 2, 3, 4, 5]


def test_a_change_that_was_told_before_snapshots_see_it_is_not_taken_back(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """A commit that waits for a synchronous standby is in the stream already, and its row is as before to snapshots."""
    caplog.set_level("INFO")
    fill(database, 5)
    run = database.run(None, incremental_snapshot_chunk_size="2")
    send(run, EXECUTE, "public.t")
    run.poll_until(lambda: len(rows_read(run.records)) == 2)
    send(run, PAUSE)
    run.poll_until(lambda: state(run).paused)
    first = len(run.records)
    database.execute("SET synchronous_commit = local", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    database.execute("SELECT pg_reload_conf()")
    waiting = psycopg.connect(database.connection.info.dsn, autocommit=True)
    pid, writers = waiting.info.backend_pid, list[threading.Thread]()

    def is_held() -> bool:
        """Not before the last of the server's processes has read the setting: until then, commits do not wait."""
        update = f"UPDATE t SET v = {len(writers) + 1} WHERE id = 5"
        writers.append(threading.Thread(target=waiting.execute, args=[update]))
        writers[-1].start()
        event = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}"
        eventually(lambda: not writers[-1].is_alive() or database.value(event) == "SyncRep", 30)
        return writers[-1].is_alive()

    try:
        eventually(is_held, 30, "a commit that waits", pause=0.1)
        run.poll_until(lambda: len(run.records[first:]) == len(writers), 30)
        assert {one.value["op"] for one in run.records[first:]} == {"u"}  # type: ignore[index]
        send(run, RESUME)
        run.poll_until(lambda: "not visible to snapshots yet" in caplog.text)
        assert rows_read(run.records[first:]) == []
    finally:
        database.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        for writer in writers:
            writer.join(30)
        waiting.close()
    read_all(run)
    versions = {one.key["id"]: one.value["after"]["v"] for one in run.records}  # type: ignore[index]
    assert versions == {1: 0, 2: 0, 3: 0, 4: 0, 5: len(writers)}
