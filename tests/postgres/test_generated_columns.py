"""Rows that are read have the generated columns that the stream has: PostgreSQL 18 can publish stored ones."""

from collections.abc import Callable

import pytest

from ringfence.connectors.api import SourceRecord, Struct
from tests.postgres.local import Database, loopback
from tests.support.postgres import LOGICAL, Postgres, find_newer, new_postgres

TABLE = """
CREATE TABLE t (
  id integer PRIMARY KEY, a integer, stored integer GENERATED ALWAYS AS (a * 2) STORED,
  virtual integer GENERATED ALWAYS AS (a * 3) {kind}
)
"""


def columns(records: list[SourceRecord]) -> list[tuple[str, ...]]:
    """Those of each record of the table."""
    rows = [record.value["after"] for record in records if isinstance(record.value, Struct) and record.topic == TOPIC]
    return [row.schema.names for row in rows if isinstance(row, Struct)]


TOPIC = "local.public.t"


def read(database: Database, virtual: str) -> list[tuple[str, ...]]:
    """The columns of a row of the snapshot, and of one of the stream."""
    database.execute(TABLE.format(kind=virtual), "INSERT INTO t (id, a) VALUES (1, 1)")
    run = database.run(snapshot_mode="initial")
    run.poll_until(lambda: len(columns(run.records)) == 1)
    database.execute("INSERT INTO t (id, a) VALUES (2, 2)")
    database.await_all(run)
    return columns(run.records)


def test_they_are_left_out(database: Database) -> None:
    assert read(database, "STORED") == [("id", "a"), ("id", "a")]


@pytest.mark.skipif(find_newer() is None, reason="needs PostgreSQL 18")
@pytest.mark.parametrize("published", ["none", "stored"])
def test_stored_ones_are_read_if_they_are_published(unique: Callable[[str], str], published: str) -> None:
    with loopback(), new_postgres(LOGICAL, programs=find_newer()) as server:
        assert isinstance(server, Postgres)
        database = Database(server, unique("generated"))
        try:
            database.execute(
                f"CREATE PUBLICATION dbz_publication FOR ALL TABLES WITH (publish_generated_columns = {published})"
            )
            expected = ("id", "a", *(["stored"] if published == "stored" else []))
            assert read(database, "VIRTUAL") == [expected, expected]
        finally:
            database.close()
