"""Reads a chunk: the next rows of a table in the order of its key, and the database snapshot they were read with; and
the changes between reading it and the position after everything that it sees.
"""

import time
from collections.abc import Sequence, Set
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from ringfence.connectors.api import ConnectorError, OffsetRecord, RetriableError, SourceRecord
from ringfence.connectors.builtin.postgres.incremental.state import IncrementalState
from ringfence.connectors.builtin.postgres.pgoutput import Change, Relation
from ringfence.connectors.builtin.postgres.setup import Setup
from ringfence.connectors.builtin.postgres.snapshot.content import ChangeKeys, Visibility
from ringfence.connectors.builtin.postgres.snapshot.plan import Key, PlannedTable
from ringfence.connectors.builtin.postgres.snapshot.planner import TableSize
from ringfence.connectors.builtin.postgres.snapshot.reading import RangeReading, RawRow


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


_LOCK_MS: Final = 50
_READ_SECONDS: Final = 10.0
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 0.01


class Chunk(NamedTuple):
    """Rows of a table. relation: describes the rows; keys: of the rows; view: what the database snapshot sees;
    until, time_us: see `RangeReading`.
    """

    table: PlannedTable
    relation: Relation | None
    rows: list[RawRow]
    keys: list[Key]
    view: Visibility
    until: int
    time_us: int


class ChunkReader:
    """Reads chunks. It keeps its connection until `close`."""

    def __init__(self, setup: Setup, limit: int) -> None:
        """limit: the maximum number of rows in a chunk."""
        self._setup = setup
        self.limit: Final = limit
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def find_upper(self, size: TableSize) -> Key | None:
        """Return the table's largest key now, or None if the table is empty."""
        columns = [sql.Identifier(column) for column in size.key]
        # A subquery, because ORDER BY would prefer the output column, the text, to the table's column.
        statement = sql.SQL("SELECT {} FROM (SELECT {} FROM {} ORDER BY {} LIMIT 1) s").format(
            sql.SQL(", ").join(sql.SQL("{}::text").format(column) for column in columns),
            sql.SQL(", ").join(columns),
            sql.Identifier(size.schema, size.name),
            sql.SQL(", ").join(sql.SQL("{} DESC").format(column) for column in columns),
        )
        session = self._setup.session
        rows = session.query(statement.as_string(session.connection).replace("%", "%%"))
        return tuple(map(str, rows[0])) if rows else None

    def read(self, size: TableSize, state: IncrementalState, delivered: Set[int]) -> Chunk | None:
        """Return the next chunk. delivered: the transactions that the stream has delivered.

        None if the database snapshot does not see one of them yet: the chunk would contain older versions of rows whose
        changes were delivered. Raises `ConnectorError`, and `RetriableError` if the table is locked.
        """
        assert state.upper is not None
        table = PlannedTable(size.oid, size.schema, size.name, size.key, (state.upper,), size.rows)
        for _ in range(_TRIES):
            reading = self._begin(table, state.last)
            try:
                view = Visibility.parse(reading.snapshot)
                if all(view.has(xid) for xid in delivered):
                    return self._take(reading, table, view)
                reading.close()
            except BaseException:
                reading.close()
                raise
            time.sleep(_PAUSE_SECONDS)
        return None

    def _begin(self, table: PlannedTable, last: Key | None) -> RangeReading:
        setup = self._setup
        connection = self._connection
        if connection is None or connection.closed:
            self._connection = connection = setup.server.connect()
        return RangeReading(
            *(setup.server, setup.session, setup.publication, table, 0, last, setup.selection),
            connection=connection,
            limit=self.limit,
            lock_ms=_LOCK_MS,
        )

    def _take(self, reading: RangeReading, table: PlannedTable, view: Visibility) -> Chunk:
        until = time.monotonic() + _READ_SECONDS
        rows: list[RawRow] = []
        while True:
            rows += reading.take(self.limit + 1 - len(rows), 1.0)
            if reading.finished:
                break
            if time.monotonic() > until:
                raise RetriableError(
                    f"Reading the next rows of {table.schema}.{table.name} takes longer than {_READ_SECONDS} s."
                )
        keys = [reading.key_of(row) for row in rows]
        chunk = Chunk(table, reading.relation, rows, keys, view, reading.until, reading.time_us)
        reading.finish()
        return chunk

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def read_error(error: psycopg.Error) -> ConnectorError:
    """Return the error to raise: a `RetriableError` if the connection was lost."""
    words = " ".join(str(error).split()).rstrip(".")
    kind = RetriableError if isinstance(error, psycopg.OperationalError) else ConnectorError
    return kind(f"The rows of a table cannot be read: {words}.")
