"""A small table, and what was read of it."""

from ringfence.connectors.api import SourceRecord, Struct
from tests.postgres.snapshots import SnapshotStand

TABLE = "CREATE TABLE t (id integer PRIMARY KEY, v text)"


def ids(records: list[SourceRecord]) -> list[object]:
    """The keys of records of tables, tombstones left out."""
    return [
        record.key["id"] for record in records if isinstance(record.key, Struct) and record.topic == "local.public.t"
    ]


def insert(first: int, last: int) -> str:
    return f"INSERT INTO t SELECT g, 'x' FROM generate_series({first}, {last}) g"


def is_within_a_range(stand: SnapshotStand, task: int) -> bool:
    """Whether it has committed some rows of a range, and not all."""
    state = stand.state()
    if state.plan is None:
        return False
    ranges = [state.ranges[table.oid, number] for table, number in state.plan.share(task, stand.tasks)]
    return any(one.rows and not one.done for one in ranges)
