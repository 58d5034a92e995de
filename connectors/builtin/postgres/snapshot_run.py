"""A task's part in a snapshot: the plan, its share of the ranges, and the wait for the other tasks; with the state and
the progress of all tasks, which are read from the committed offsets.

The plan divides the captured tables into ranges of about the same size.
"""

import logging
import math
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from ringfence.connectors.api import (
    ConnectorError,
    Gauge,
    RetriableError,
    SourceMetrics,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    SourceTaskContext,
)
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.offsets import (
    Key,
    Plan,
    PlannedTable,
    RangeProgress,
    plan_records,
    progress_of,
    range_partition,
    read_plan,
)
from ringfence.connectors.builtin.postgres.session import Session, Setup, one_line
from ringfence.connectors.builtin.postgres.settings import Selection
from ringfence.connectors.builtin.postgres.snapshot_content import EarlierTransactions, SnapshotContent, order_of
from ringfence.connectors.builtin.postgres.snapshot_reading import Limits, ReadingPhase, Source
from ringfence.connectors.builtin.postgres.tables import Query, read_name

_MOST_RANGES: Final = 1000
"""The maximum number of ranges of all tables: each has a source offset, and the stream searches their bounds."""
_SAMPLED_PAGES: Final = 30
"""The number of pages to sample for each range. Keys in one page are often adjacent, so fewer pages would not do."""
_PAGE_BYTES: Final = 8192
_MOST_BOUND_BYTES: Final = 100_000
"""The maximum size of one table's bounds, so that a part of the plan fits into a record."""

_PUBLISHED: Final = """
SELECT DISTINCT c.oid::int8, n.nspname, c.relname
FROM pg_publication_tables p
JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s ORDER BY 2, 3
"""
_SIZE: Final = """
SELECT coalesce(sum(CASE WHEN c.reltuples >= 0 THEN c.reltuples
                    ELSE pg_relation_size(c.oid) / 100 END), 0)::int8,
       coalesce(sum(pg_relation_size(c.oid)), 0)::int8
FROM (SELECT relid AS oid FROM pg_partition_tree(%s::oid) WHERE isleaf UNION SELECT %s::oid) t
JOIN pg_class c ON c.oid = t.oid AND c.relkind = 'r'
"""
_KEY: Final = """
SELECT array_agg(a.attname::text ORDER BY k.place)
FROM pg_class c
JOIN pg_index i ON i.indrelid = c.oid
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE c.oid = %s AND k.place <= i.indnkeyatts AND i.indisvalid
  AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END
"""


class TableSize(NamedTuple):
    """A captured table. key: see `PlannedTable`; rows: their estimated number; size: in bytes."""

    oid: int
    schema: str
    name: str
    key: tuple[str, ...]
    rows: int
    size: int


def find_tables(session: Session, publication: str, selection: Selection) -> list[TableSize]:
    """Return the tables that are selected and published: for others, the stream would have no changes."""
    tables = []
    for oid, schema, name in session.query(_PUBLISHED, [publication]):
        if selection.has_table(schema, name):
            tables.append(measure(session, oid, schema, name))
    return tables


def measure(session: Session, oid: int, schema: str, name: str) -> TableSize:
    """Return one table's key and size from the catalog."""
    ((rows, size),) = session.query(_SIZE, [oid, oid])
    ((key,),) = session.query(_KEY, [oid])
    return TableSize(oid, schema, name, tuple(key or ()), rows, size)


def find_keyed(session: Session, oid: int) -> TableSize | None:
    """Return one table's names and key, or None if it was dropped. Without its size: measuring it waits for locks."""
    name = read_name(session.query, oid)
    if name is None:
        return None
    ((key,),) = session.query(_KEY, [oid])
    return TableSize(oid, *name, tuple(key or ()), 0, 0)


def make_plan(session: Session, tables: Sequence[TableSize], range_rows: int) -> Plan:
    """Divide the tables into ranges. range_rows: the approximate number of rows in a range."""
    counts = {table.oid: max(1, math.ceil(table.rows / range_rows)) if table.key else 1 for table in tables}
    total = sum(counts.values())
    if total > _MOST_RANGES:
        room = max(0, _MOST_RANGES - len(tables))
        counts = {oid: 1 + (count - 1) * room // total for oid, count in counts.items()}
    planned = [
        PlannedTable(
            table.oid,
            table.schema,
            table.name,
            table.key,
            find_bounds(session, table, counts[table.oid]),
            table.rows,
        )
        for table in tables
    ]
    return Plan(uuid.uuid4().hex, time.time_ns() // 1_000_000, tuple(planned))


def find_bounds(session: Session, table: TableSize, ranges: int) -> tuple[Key, ...]:
    """Return keys that divide the table into about `ranges` equal ranges, from a sample of its pages."""
    if ranges < 2:
        return ()
    percent = min(100.0, 100.0 * _SAMPLED_PAGES * ranges * _PAGE_BYTES / max(1, table.size))
    columns = sql.SQL(", ").join(map(sql.Identifier, table.key))
    texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(column)) for column in table.key)
    statement = sql.SQL(
        "SELECT {} FROM (SELECT {}, row_number() OVER (ORDER BY {}) AS place, count(*) OVER () AS total "
        "FROM {} TABLESAMPLE SYSTEM ({})) s WHERE place %% greatest(1, total / {}) = 0 ORDER BY place"
    ).format(
        texts,
        columns,
        columns,
        sql.Identifier(table.schema, table.name),
        sql.Literal(percent),
        sql.Literal(ranges),
    )
    rows = session.query(statement.as_string(session.connection).replace("%%", "%"))
    key_bounds = list(dict.fromkeys(tuple(map(str, row)) for row in rows))[: ranges - 1]
    while sum(len(value) for bound in key_bounds for value in bound) > _MOST_BOUND_BYTES:
        key_bounds = key_bounds[1::2]
    return tuple(key_bounds)


logger = logging.getLogger(__name__)


_RATE_SECONDS: Final = 60.0
_RATE_APART: Final = 0.5


class Rate:
    """The rate of a growing number of rows."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def measure(self, rows: int) -> float | None:
        """Record the number of rows now. Return the rate, or None for the first measurement."""
        now = time.monotonic()
        if self._points and rows < self._points[-1][1]:
            self._points.clear()  # another snapshot
        if not self._points or now - self._points[-1][0] >= _RATE_APART:
            self._points.append((now, rows))
        while now - self._points[0][0] > _RATE_SECONDS:
            self._points.popleft()
        since, before = self._points[0]
        return (rows - before) / (now - since) if now > since else None


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """The state of a snapshot. committed: the stream's offset; plan: of the snapshot that the mode requires; ranges: by
    oid and number; wanted: there is something left to read, or to plan.
    """

    server: str
    committed: SourceOffset | None
    plan: Plan | None
    ranges: Mapping[tuple[int, int], RangeProgress] = field(default_factory=dict)
    has_work: bool = False

    @property
    def complete(self) -> bool:
        """Whether every range is read and committed."""
        return self.plan is not None and all(one.done for one in self.ranges.values())

    def new_contained(self, query: Query, position: int) -> SnapshotContent | None:
        """Return what the stream must skip from this position; None if it has passed all of that."""
        if self.plan is None:
            return None
        content = SnapshotContent(
            self.server, self.plan, self.ranges, lambda table, bounds: order_of(query, table, bounds)
        )
        return content if content.until > position else None


def find_state(server: str, mode: str, offset: Callable[[SourcePartition], SourceOffset | None]) -> SnapshotState:
    """Return the state in the offsets. Raises `ConnectorError` for invalid offsets, and if they do not fit the mode."""
    committed = offset({"server": server})
    plan = read_plan(server, offset)
    if plan is not None and mode in (names.INITIAL, names.WHEN_NEEDED) and committed is None:
        plan = None  # from a snapshot without a stream (initial_only): later changes are unknown
    if plan is None:
        return SnapshotState(server, committed, None, has_work=mode != names.NO_DATA and committed is None)
    ranges = {
        (table.oid, number): progress_of(plan, offset(range_partition(server, table, number)))
        for table, number in plan.ranges()
    }
    state = SnapshotState(server, committed, plan, ranges)
    if state.complete:
        return state
    if mode == names.NO_DATA:
        raise ConnectorError(
            f"A snapshot is unfinished, and {names.SNAPSHOT}={mode} does not continue it. Set {names.SNAPSHOT}="
            f"{names.INITIAL}; or stop the connector and reset its offsets, to start without a snapshot."
        )
    return SnapshotState(server, committed, plan, ranges, has_work=True)


_MOST_TABLES: Final = 20
"""The maximum number of tables with a gauge of their own: the first unfinished ones."""


class SnapshotGauges:
    """The gauges of a snapshot. The first task sets them."""

    def __init__(self, metrics: SourceMetrics) -> None:
        gauge = metrics.gauge
        self._metrics = metrics
        self._tables = gauge("snapshot_tables_left", "Tables of the snapshot that are not complete yet")
        self._ranges = gauge("snapshot_ranges_left", "Ranges of the snapshot that are not complete yet")
        self._rows = gauge("snapshot_rows", "Rows of the snapshot that are in Kafka")
        self._estimate = gauge("snapshot_rows_estimated", "Rows of the snapshot, as estimated by the database")
        self._rate = gauge("snapshot_rows_per_second", "Rows of the snapshot per second, over the last minute")
        self._seconds = gauge("snapshot_left", "Time until the snapshot is complete, at this rate", unit="seconds")
        self._speed = Rate()
        self._by_table: dict[str, Gauge] = {}

    def show(self, state: SnapshotState) -> None:
        """Set the gauges to what is committed now."""
        if state.plan is None:
            return
        left = [one for one in state.plan.tables if not self._is_read(state, one)]
        rows = sum(progress.rows for progress in state.ranges.values())
        remaining = sum(max(0, one.rows - self._count_rows(state, one)) for one in left)
        self._tables.set(len(left))
        self._ranges.set(sum(not progress.done for progress in state.ranges.values()))
        self._rows.set(rows)
        self._estimate.set(rows + remaining)
        rate = self._speed.measure(rows)
        self._rate.set(rate if left else None)
        self._seconds.set(None if not left else remaining / rate if rate else None)
        self._show_tables(state, left)

    def _show_tables(self, state: SnapshotState, left: list[PlannedTable]) -> None:
        unfinished = {f"{one.schema}.{one.name}": one for one in left}
        for name in list(self._by_table):
            if name not in unfinished:
                self._by_table.pop(name).set(None)
        for name, one in unfinished.items():
            if len(self._by_table) >= _MOST_TABLES and name not in self._by_table:
                break
            of_all = f"Rows of the table that are in Kafka, of about {one.rows}"
            gauge = self._by_table[name] = self._metrics.gauge("snapshot_table_rows", of_all, labels={"table": name})
            gauge.set(self._count_rows(state, one))

    @staticmethod
    def _is_read(state: SnapshotState, table: PlannedTable) -> bool:
        return all(state.ranges[table.oid, number].done for number in range(table.ranges))

    @staticmethod
    def _count_rows(state: SnapshotState, table: PlannedTable) -> int:
        return sum(state.ranges[table.oid, number].rows for number in range(table.ranges))


_LOOK_SECONDS: Final = 0.5
_SHOW_SECONDS: Final = 5.0


class SnapshotRun:
    """Reads a snapshot. Call `poll` until `state` is set: then every range of every task is committed.

    The first task makes the plan, and finally waits for the others. They wait for the plan.
    """

    def __init__(
        self,
        setup: Setup,
        context: SourceTaskContext,
        mode: str,
        state: SnapshotState,
        number: int,
        tasks: int,
        first: Sequence[SourceRecord],
    ) -> None:
        """state: without a plan if a new one is needed; first: records to commit with the plan."""
        self._setup = setup
        self._context = context
        self._mode = mode
        self._number, self._tasks = number, tasks
        self._first = list(first)
        self._earlier = EarlierTransactions(setup.session.query)
        self._phase: ReadingPhase | None = None
        self.state: SnapshotState | None = None
        self._gauges = SnapshotGauges(context.metrics) if number == 0 else None
        self._look_at = time.monotonic() + _SHOW_SECONDS
        self._plan_id = ""
        if state.plan is not None:
            self._begin(state.plan, context.offset_reader.offset)

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next records, or None if there are none now. Raises `ConnectorError`."""
        try:
            return self._poll()
        except ConnectorError as error:
            if isinstance(error.__cause__, psycopg.OperationalError):  # the server may be restarting
                raise RetriableError(str(error)) from error
            raise

    def _poll(self) -> Sequence[SourceRecord] | None:
        if self._phase is None:
            if self._number == 0:
                return self._plan()
            self._await_plan()
            return None
        if not self._phase.done:
            if self._number == 0 and time.monotonic() >= self._look_at:
                self._look()
            return self._phase.poll()
        if self.state is None:
            self._await_others()
        return None

    def _plan(self) -> Sequence[SourceRecord] | None:
        try:
            if not self._slot_is_quiet():
                self._context.wait(_LOOK_SECONDS)
                return None
            setup = self._setup
            tables = find_tables(setup.session, setup.publication, setup.selection)
            plan = make_plan(setup.session, tables, setup.settings.integer(names.RANGE_ROWS))
        except psycopg.OperationalError as error:
            raise RetriableError(f"The database server does not answer: {one_line(error)}.") from error
        except psycopg.Error as error:
            raise ConnectorError(f"The tables cannot be divided into ranges: {one_line(error)}.") from error
        logger.info(
            "The snapshot reads %d tables in %d ranges, about %d rows",
            *(len(plan.tables), len(plan.ranges()), sum(table.rows for table in plan.tables)),
        )
        self._request_commit()
        records = [*self._first, *plan_records(setup.prefix, plan)]
        self._begin(plan, lambda _partition: None)
        return records

    def _slot_is_quiet(self) -> bool:
        """Return whether all transactions that were running when the slot was created have ended.

        Such a transaction may commit before the slot's first position and still be invisible, for example because it
        waits for a synchronous standby. Then neither the stream nor rows that are read now would contain its changes.
        """
        if self._mode == names.INITIAL_ONLY:
            return True
        left = self._earlier.count()
        if left:
            logger.info("The snapshot waits for %d transactions that started before the slot was created", left)
        return not left

    def _await_plan(self) -> None:
        self._context.wait(_LOOK_SECONDS)
        read = self._context.read_offsets()
        state = find_state(self._setup.prefix, self._mode, read.offset)
        if state.plan is not None:
            self._begin(state.plan, read.offset)

    def _begin(self, plan: Plan, offset: Callable[[SourcePartition], SourceOffset | None]) -> None:
        self._plan_id = plan.id
        setup = self._setup
        source = Source(
            setup.server,
            setup.session,
            setup.publication,
            setup.selection,
            setup.new_describer(),
            setup.records,
            setup.prefix,
            self._context.converters,
        )
        limits = Limits(setup.batch_size, setup.longest_seconds)
        share = plan.share(self._number, self._tasks)
        self._phase = ReadingPhase(source, plan, share, offset, limits, self._request_commit)

    def _request_commit(self) -> None:
        if self._context.transaction_context is not None:
            self._context.transaction_context.commit_transaction()

    def _await_others(self) -> None:
        self._context.wait(_LOOK_SECONDS)
        if self._number:
            return  # the first task continues when all are done
        state = self._look()
        if state.complete and state.plan is not None and state.plan.id == self._plan_id:
            rows = sum(one.rows for one in state.ranges.values())
            logger.info("The snapshot is complete: %d rows", rows)
            self.state = state

    def _look(self) -> SnapshotState:
        """Return what all tasks have committed, and show it."""
        state = find_state(self._setup.prefix, self._mode, self._context.read_offsets().offset)
        if self._gauges is not None:
            self._gauges.show(state)
        self._look_at = time.monotonic() + _SHOW_SECONDS
        return state

    def close(self) -> None:
        """Close the connection of the open range."""
        if self._phase is not None:
            self._phase.close()
