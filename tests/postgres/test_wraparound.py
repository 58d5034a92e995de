"""The server's 32-bit transaction ids begin again while the snapshot is read and tasks are killed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from ringfence.connectors.builtin.postgres.snapshot_content import Visibility
from tests.postgres import versions
from tests.postgres.snapshots import SnapshotStand
from tests.support.broker import Broker
from tests.support.postgres import LOGICAL, Postgres, new_postgres
from tests.support.snapshot_tables import is_within_a_range
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_WRAP: Final = 1 << 32
_STEPS: Final = (1_500_000_000, 3_000_000_000, _WRAP - 30_000)
"""Ids of the next transaction. Less than half of all ids may be between the oldest and the newest in use."""
_SEGMENT_IDS: Final = 1 << 20
_SEGMENT: Final = bytes(_SEGMENT_IDS // 4)
"""A file of pg_xact: two bits for each transaction."""


@pytest.fixture
def old_server() -> Iterator[Postgres]:
    """Its ids are about to begin again."""
    with new_postgres(LOGICAL) as server:
        server.query("ALTER DATABASE template0 ALLOW_CONNECTIONS true")
        for xid in _STEPS:
            server.stop()
            server.write_file(f"pg_xact/{xid // _SEGMENT_IDS:04X}", _SEGMENT)
            server.reset_log("-x", str(xid))
            server.start()
            server.freeze()
        yield server


@pytest.fixture
def old(old_server: Postgres, broker: Broker, unique: Callable[[str], str], tmp_path: Path) -> Iterator[SnapshotStand]:
    settings = {"snapshot_range_rows": "700", "max_batch_size": "40"}
    made = SnapshotStand(old_server, broker.bootstrap, unique("wrap"), tmp_path, 2, **settings)
    yield made
    made.close()


def use_up_ids(stand: SnapshotStand, until: int) -> None:
    """By transactions that do nothing else."""
    loop = "WHILE pg_current_xact_id()::text::bigint < {} LOOP COMMIT; END LOOP"
    with stand.connect() as connection:
        connection.execute(f"DO $$ BEGIN {loop.format(until)}; END $$".encode())


def test_snapshot_and_stream_are_exact_while_transaction_ids_begin_again(old: SnapshotStand) -> None:
    versions.create(old)
    old.hooks = ["slow"]
    old.configure()
    workload = versions.Workload(old, seed=1, moves=0.1)
    try:
        for number in range(old.tasks):
            old.begin(number)
        eventually(lambda: is_within_a_range(old, 1), 90, old.logs, pause=0.1)
        use_up_ids(old, _WRAP - 20)
        old.strike(1)
        old.begin(1)
        eventually(lambda: old.state().complete, 90, old.logs, pause=0.2)
        old.strike(0)
        old.begin(0)
    finally:
        workload.end()
    old.finish_all(versions.write_last(old))
    segments = [segment for one in old.state().ranges.values() for segment in one.segments]
    seen = [Visibility.parse(segment.snapshot).xmax for segment in segments]
    assert min(seen) < _WRAP < max(seen), "the ids did not begin again within the snapshot"
    records = old.read(versions.TABLE)
    streamed = {record.value["source"]["txId"] for record in records if record.value and record.value["op"] != "r"}
    assert min(streamed) < _WRAP // 2 < max(streamed), "the ids did not begin again within the stream"
    assert versions.find_wrong(records, versions.rows_of(old), preloaded=False) == []
