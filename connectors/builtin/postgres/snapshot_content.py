"""Skips changes of the stream that the snapshot's rows already contain.

The rule: a change is contained if its key is in a segment whose database snapshot sees the change's transaction. A
change of a key is a delete under the old key and a create under the new key; the rule applies to each of them. Nothing
after the position `until` is contained. docs/decisions/postgres-snapshot-rule.md has the rule;
tests/postgres/test_snapshot_model.py shows the consequences of leaving out parts of it.

So there are three questions: which transactions a database snapshot sees (`Visibility`), which key comes first in the
database's order (`KeyOrder`), and which keys a change has (`ChangeKeys`).
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

from psycopg import sql

from ringfence.connectors.api import ConnectorError, OffsetRecord, SourceRecord
from ringfence.connectors.builtin.postgres.offsets import Key, Plan, PlannedTable, RangeProgress, range_partition
from ringfence.connectors.builtin.postgres.pgoutput import UNCHANGED, Change, RawReading, Relation, Row, decode
from ringfence.connectors.builtin.postgres.tables import Query

logger = logging.getLogger(__name__)


_WRAP: Final = 1 << 32
_RUNNING: Final = """
SELECT transactionid::text FROM pg_locks
WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
"""
"""A transaction holds the lock on its own id until its changes are visible to snapshots."""


def find_running(query: Query) -> set[int]:
    """Return the ids of transactions that have changed something, and that no snapshot sees yet."""
    return {int(xid) for (xid,) in query(_RUNNING, ())}


class EarlierTransactions:
    """The transactions that were running at the first call of `count`. Later ones are not added."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._left: set[int] | None = None

    def count(self) -> int:
        """Return how many have not ended. Raises psycopg's errors."""
        if self._left is None or self._left:
            now = find_running(self._query)
            self._left = now if self._left is None else self._left & now
        return len(self._left)


class Visibility(NamedTuple):
    """A `pg_snapshot`. All transactions before `xmin` had ended, and none from `xmax`; between them, `running` had not.

    The ids are 64-bit ids of top-level transactions. The stream has these ids, too, even for changes in a
    subtransaction.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Visibility":
        """Parse `pg_current_snapshot()::text`, which is `xmin:xmax:xid,xid`. Raises `ConnectorError`."""
        try:
            xmin, xmax, running = text.split(":")
            return cls(int(xmin), int(xmax), frozenset(map(int, running.split(","))) if running else frozenset())
        except ValueError as error:
            raise ConnectorError(
                f"{text!r} in a source offset is not a PostgreSQL snapshot. Stop the connector and reset its offsets."
            ) from error

    def has(self, xid: int) -> bool:
        """Return whether the snapshot sees a committed transaction. xid: the low 32 bits of its id.

        The transaction ended near the snapshot, so `xid` means the nearest id with these bits.
        """
        full = self.xmax + (xid - self.xmax + _WRAP // 2) % _WRAP - _WRAP // 2
        return full < self.xmin or (full < self.xmax and full not in self.running)


_REMEMBERED: Final = 50_000


class KeyOrder(Protocol):
    """The order of one table's keys, with some of them as ascending bounds."""

    def count_below(self, key: Key) -> int:
        """Return how many of the bounds are less than the key."""
        ...


class PythonOrder:
    """Compares types that Python orders as PostgreSQL does."""

    def __init__(self, bounds: Sequence[Key], readers: Sequence[Callable[[str], Any]]) -> None:
        self._readers = readers
        self._bounds = [self._read(bound) for bound in bounds]

    def _read(self, key: Key) -> tuple[Any, ...]:
        return tuple(read(value) for read, value in zip(self._readers, key, strict=True))

    def count_below(self, key: Key) -> int:
        return bisect_left(self._bounds, self._read(key))


class AskedOrder:
    """Lets the server compare all other types, with the column's type and collation. It caches the results."""

    def __init__(self, query: Query, statement: str, bounds: Sequence[Key]) -> None:
        columns = [list(column) for column in zip(*bounds, strict=True)]
        self.count_below = lru_cache(_REMEMBERED)(lambda key: int(query(statement, [*columns, *key])[0][0]))


_COLUMNS: Final = """
SELECT a.attname, t.typname, format_type(a.atttypid, a.atttypmod),
       CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN
         (SELECT format('%%I.%%I', n.nspname, c.collname)
          FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = a.attcollation) END,
       a.attcollation IN (950, 951) OR (a.attcollation = 100 AND d.datcollate IN ('C', 'POSIX')
         AND coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'c')
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_database d ON d.datname = current_database()
WHERE a.attrelid = %s AND a.attname = ANY(%s)
"""
_NUMBERS: Final = frozenset({"int2", "int4", "int8", "oid"})
_BYTEWISE: Final = frozenset({"uuid", "bytea"})
_TEXTS: Final = frozenset({"text", "varchar"})


def order_of(query: Query, table: PlannedTable, bounds: Sequence[Key]) -> KeyOrder:
    """Return the order of the table's keys. bounds: ascending."""
    columns = {str(name): row for name, *row in query(_COLUMNS, [table.oid, list(table.key)])}
    if not bounds:
        return PythonOrder((), ())
    readers = [_reader(*columns[column]) for column in table.key if column in columns]
    if len(readers) == len(table.key) and None not in readers:
        return PythonOrder(bounds, [read for read in readers if read is not None])
    types = [columns.get(column, ["", "text", None, False]) for column in table.key]
    return AskedOrder(query, _statement([(str(row[1]), row[2]) for row in types]), bounds)


def _reader(type_: str, _name: str, _collation: str | None, plain: bool) -> Callable[[str], Any] | None:
    if type_ in _NUMBERS:
        return int
    if type_ in _BYTEWISE:
        return str
    return str.encode if type_ in _TEXTS and plain else None


def _statement(types: Sequence[tuple[str, str | None]]) -> str:
    """Return the query. types: types and collations from the catalog, quoted by the server."""

    def column_of(what: str, type_: str, collation: str | None) -> str:
        return f"{what}::{type_}" + (f" COLLATE {collation}" if collation else "")

    names = ", ".join(f"c{number}" for number in range(len(types)))
    bounds = ", ".join(column_of(f"c{number}", *one) for number, one in enumerate(types))
    row_values = ", ".join(column_of("%s::text", *one) for one in types)
    arrays = ", ".join("%s::text[]" for _ in types)
    return f"SELECT count(*) FROM unnest({arrays}) AS b({names}) WHERE ROW({bounds}) < ROW({row_values})"  # noqa: S608


def keys_between(key: Sequence[str], lower: Key | None, upper: Key | None) -> sql.Composed:
    """Return the SQL condition for rows after `lower` and up to `upper`, in the server's order."""
    columns = sql.SQL(", ").join(map(sql.Identifier, key))
    parts: list[sql.Composable] = [
        sql.SQL("ROW({}) {} ROW({})").format(columns, sql.SQL(sign), sql.SQL(", ").join(map(sql.Literal, bound)))
        for sign, bound in ((">", lower), ("<=", upper))
        if bound is not None
    ]
    return sql.SQL(" AND ").join(parts or [sql.SQL("true")])


class ChangeKeys:
    """Reads the keys of one table's changes. key: the names of its columns."""

    def __init__(self, key: Sequence[str]) -> None:
        self._key = key
        self._places: list[int] = []
        self._raw: dict[int, RawReading] = {}

    def relate(self, relation: Relation) -> str:
        """Register the table's columns for the following changes. Return the key's first missing column, or ""."""
        columns = [column.name for column in relation.columns]
        if missing := [name for name in self._key if name not in columns]:
            return missing[0]
        self._places = [columns.index(name) for name in self._key]
        self._raw = {relation.oid: RawReading(len(columns))}
        return ""

    def find(self, change: Change, message: bytes) -> tuple[Key, Key]:
        """Return the key before and after a change: the same one if it has not changed, or only one is known."""
        raw = decode(message, dict(self._raw))
        assert isinstance(raw, Change)
        new = self._of(raw.after, raw.before) if raw.after is not None else None
        old = self._of(raw.before, None) if raw.before is not None else new
        new = new or old
        assert new is not None
        assert old is not None
        return old, new

    def _of(self, row: Row | None, other: Row | None) -> Key:
        assert row is not None
        values = []
        for place in self._places:
            value = row[place]
            if value is UNCHANGED and other is not None:
                value = other[place]  # an unchanged part of the key that is stored out of line
            assert isinstance(value, bytes)
            values.append(value.decode())
        return tuple(values)


Order = Callable[[PlannedTable, Sequence[Key]], KeyOrder]


class ReadTable:
    """One table of the snapshot, with the database snapshots that its rows were read with, by key."""

    def __init__(self, table: PlannedTable, ranges: Sequence[RangeProgress], order: Order) -> None:
        self.table = table
        self.ranges = ranges
        self.views: list[Visibility] = []
        starts: list[Key] = []
        for number, progress in enumerate(ranges):
            for place, segment in enumerate(progress.segments):
                start = segment.after if place else table.lower(number)
                if self.views:
                    assert start is not None
                    starts.append(start)
                self.views.append(Visibility.parse(segment.snapshot))
        self.until = max((segment.until for one in ranges for segment in one.segments), default=0)
        self._order = order(table, starts) if starts else None
        self._change_keys = ChangeKeys(table.key)

    def relate(self, relation: Relation) -> None:
        """Register the table's columns for the following changes. Raises `ConnectorError` if the key is incomplete."""
        if self._order is None:
            return
        if missing := self._change_keys.relate(relation):
            raise ConnectorError(
                f"{relation.schema}.{relation.name} no longer has the column {missing} of the key by which its rows "
                "were read. It is unknown which of its changes the snapshot contains. Stop the connector, reset its "
                "offsets and resume it: the tables are read again."
            )

    def sees(self, key: Key, xid: int) -> bool:
        """Return whether the row that was read under the key, or its absence, reflects the transaction."""
        return self.views[self._order.count_below(key) if self._order is not None else 0].has(xid)

    def remainder(self, change: Change, message: bytes, xid: int) -> Change | None:
        """Return the part of a change that the rows do not contain; None if they contain all of it."""
        if self._order is None:
            return None if self.views[0].has(xid) else change
        old, new = self._change_keys.find(change, message)
        if old == new:
            return None if self.sees(new, xid) else change
        saw_old, come = self.sees(old, xid), self.sees(new, xid)
        if saw_old and come:
            return None
        if saw_old:
            return Change("c", change.relation, None, change.after, torn=change.torn)
        if come:
            return Change("d", change.relation, change.before, None, key_only=change.key_only)
        return change


class SnapshotContent:
    """The tables of a finished snapshot. until: the position after which nothing is contained."""

    def __init__(self, server: str, plan: Plan, ranges: Mapping[tuple[int, int], RangeProgress], order: Order) -> None:
        """ranges: by the table's oid and the number of the range."""
        self._server = server
        self._tables: dict[int, ReadTable] = {}
        for table in plan.tables:
            read = ReadTable(table, [ranges[table.oid, number] for number in range(table.ranges)], order)
            if read.views:
                self._tables[table.oid] = read
        self.until: Final = max((table.until for table in self._tables.values()), default=0)

    def relate(self, relation: Relation) -> None:
        """See `ReadTable.relate`."""
        if (table := self._tables.get(relation.oid)) is not None:
            table.relate(relation)

    def remainder(self, change: Change, message: bytes, xid: int) -> Change | None:
        """Return the part of a change that the rows do not contain; None if they contain all of it."""
        table = self._tables.get(change.relation)
        return change if table is None else table.remainder(change, message, xid)

    def truncate(self, oid: int, xid: int, *, skipped: bool) -> list[OffsetRecord] | None:
        """Return None if the rows contain a TRUNCATE, which means that all of them were read after it.

        If some were read after it and others before, a consumer that applies the TRUNCATE loses both. So nothing of the
        table counts as contained any longer; the returned records commit that. skipped: TRUNCATE has no records.
        """
        table = self._tables.get(oid)
        if table is None:
            return []
        views_with_it = [view.has(xid) for view in table.views]
        if all(views_with_it):
            return None
        if skipped or not any(views_with_it):
            return []
        del self._tables[oid]
        logger.warning(
            "%s.%s was truncated while the snapshot read it: later changes are delivered again, after the TRUNCATE",
            *(table.table.schema, table.table.name),
        )
        return list(_without_segments(self._server, table))


def _without_segments(server: str, table: ReadTable) -> Iterable[OffsetRecord]:
    for number, progress in enumerate(table.ranges):
        offset = RangeProgress(progress.plan, (), progress.last, progress.rows, progress.done, progress.at_ms)
        yield OffsetRecord(range_partition(server, table.table, number), offset.as_offset())


def leave_out(records: Sequence[SourceRecord], contained: Set[int]) -> list[SourceRecord]:
    """Return the records; of those whose `id` is in `contained`, only their offsets."""
    return [OffsetRecord(one.source_partition, one.source_offset) if id(one) in contained else one for one in records]


class Window:
    """Finds the stream's records that a chunk's rows already contain. The rows precede the remaining records.

    The rule: a change is contained if the database snapshot sees its transaction, and the chunk has a row with its key.
    If the chunk has no such row, the change is delivered, for example a delete. If the rule does not apply, `broken` is
    the reason: the chunk is discarded, and read again.
    """

    def __init__(
        self, table: PlannedTable, view: Visibility, keys: Set[Key], until: int, *, with_metadata: bool
    ) -> None:
        """keys: of the chunk's rows; until: a position after the commit of every transaction that the view sees;
        with_metadata: the records of a transaction are counted for its metadata, so none may be left out.
        """
        self.oid = table.oid
        self.until = until
        self.contained: set[int] = set()
        """The `id`s of the contained records."""
        self.broken = ""
        self._view = view
        self._keys = keys
        self._with_metadata = with_metadata
        self._change_keys = ChangeKeys(table.key)

    def relate(self, relation: Relation) -> None:
        """Register the table's columns for the following changes."""
        if missing := self._change_keys.relate(relation):
            self.broken = f"its column {missing} was dropped"

    def note(self, change: Change, message: bytes, xid: int, records: Sequence[SourceRecord]) -> None:
        """Note a change of the chunk's table, and its records."""
        if self.broken or not records or not self._view.has(xid):
            return
        old, new = self._change_keys.find(change, message)
        moved = change.op == "u" and old != new and len(records) > 1  # a delete, a tombstone and a create
        at_old = records[:-1] if moved else records if change.op == "d" else ()
        at_new = records[-1:] if moved else () if change.op == "d" else records
        rows = [*(at_old if old in self._keys else ()), *(at_new if new in self._keys else ())]
        if rows and self._with_metadata:
            self.broken = "a transaction whose records are counted has changed its rows"
        self.contained.update(map(id, rows))

    def truncate(self) -> None:
        """Note a TRUNCATE of the table."""
        self.broken = "the table was truncated"
