"""Asks for incremental snapshots, and waits for them."""

from collections.abc import Sequence
from typing import Any

from ringfence.connectors.api import Signal, SourceRecord
from ringfence.connectors.builtin.postgres.offsets import IncrementalState, incremental_partition, state_of
from tests.connectors.fakes import FakeContext
from tests.postgres.local import Database, Run

TABLE = "CREATE TABLE t (id integer PRIMARY KEY, v integer NOT NULL, big text)"


def fill(database: Database, rows: int) -> None:
    database.execute(TABLE, f"INSERT INTO t SELECT g, 0, 'x' FROM generate_series(1, {rows}) g", "ANALYZE t")


def state(run: Run) -> IncrementalState:
    """What is committed."""
    return state_of(run.offsets.offset(incremental_partition("local")))


def send(run: Run, kind: str, *tables: str) -> None:
    context = run.task.context
    assert isinstance(context, FakeContext)
    number = 1 + max((one.number for one in context.signals), default=state(run).signal)
    context.signals = [*context.signals, Signal(number, kind, {"data-collections": list(tables)})]


def read_all(run: Run) -> None:
    """Poll until nothing is left of what was asked for."""
    context = run.task.context
    assert isinstance(context, FakeContext)
    newest = max((one.number for one in context.signals), default=0)
    run.poll_until(lambda: state(run).signal >= newest and not state(run).queue)


def rows_read(records: Sequence[SourceRecord], table: str = "public.t") -> list[int]:
    """Keys of the rows that an incremental snapshot has read."""
    found: Any = [one for one in records if one.topic == f"local.{table}" and one.value is not None]
    read = [one for one in found if one.value["op"] == "r"]
    assert {one.value["source"]["snapshot"] for one in read} <= {"incremental"}
    return [one.key["id"] for one in read]
