"""Reads the rows of one range with one database snapshot and one COPY, in the order of the key."""

import re
import select
import time
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import pq, sql

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.builtin.postgres.catalog import read_name
from ringfence.connectors.builtin.postgres.pgoutput import Relation
from ringfence.connectors.builtin.postgres.selection import Selection
from ringfence.connectors.builtin.postgres.session import Server, Session, one_line
from ringfence.connectors.builtin.postgres.snapshot.key_order import keys_between
from ringfence.connectors.builtin.postgres.snapshot.plan import Key, PlannedTable
from ringfence.connectors.builtin.postgres.snapshot.relations import find_published, find_relation

_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_NULL: Final = b"\\N"
_LOCK_MS: Final = 2000
_FLUSH_SECONDS: Final = 1.0
_BEGIN: Final = """
SELECT pg_current_snapshot()::text, (pg_current_wal_insert_lsn() - '0/0')::int8,
       (extract(epoch FROM clock_timestamp()) * 1000000)::int8
"""

RawRow = list[bytes | None]


def split_row(line: bytes) -> RawRow:
    """Return the values of one line of COPY's text format, without its line break; None for null."""
    values = line.split(b"\t")
    if b"\\" not in line:
        return list(values)
    return [None if value == _NULL else _ESCAPED.sub(_unescape, value) for value in values]


def _unescape(match: re.Match[bytes]) -> bytes:
    return _ESCAPES.get(match[1], match[1])


class RangeReading:
    """Reads one range, or the rest of one. snapshot, until: see `Segment`; time_us: of the snapshot, since 1970."""

    def __init__(
        self,
        server: Server,
        session: Session,
        publication: str,
        table: PlannedTable,
        number: int,
        after: Key | None,
        selection: Selection,
        *,
        connection: "psycopg.Connection[tuple[Any, ...]] | None" = None,
        limit: int | None = None,
        lock_ms: int = _LOCK_MS,
    ) -> None:
        """session: for the catalog; after: the last key that was read; connection: to reuse (`finish`); limit: the
        maximum number of rows; lock_ms: how long to wait for a lock. Raises `ConnectorError` and psycopg's errors.
        """
        self._connection = connection or server.connect()
        self._selection = selection
        self._limit = limit
        self._lock_ms = lock_ms
        try:
            self._open(session, publication, table, number, after)
        except BaseException:
            self._connection.close()
            raise

    def _open(self, session: Session, publication: str, table: PlannedTable, number: int, after: Key | None) -> None:
        self.relation: Relation | None = None
        self.finished = False
        connection = self._connection
        current_name = read_name(session.query, table.oid)
        pair = None
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if current_name is not None:
            # Lock before taking the snapshot: TRUNCATE and other rewrites of a table ignore older snapshots.
            name = sql.Identifier(*current_name)
            connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(self._lock_ms)))
            try:
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(name))
            except psycopg.errors.LockNotAvailable as error:
                raise RetriableError(f"{table.schema}.{table.name} is locked: {one_line(error)}.") from error
            pair = find_relation(session.query, table.oid)
        row = connection.execute(_BEGIN).fetchone()
        assert row is not None
        self.snapshot, self.until, self.time_us = row
        self._await_flush(session)
        if pair is None:  # the table was dropped
            self.finished = True
            return
        relation, partitioned = pair
        relation, condition = find_published(session.query, publication, relation)
        self.relation = self._narrow(relation, table.key)
        if missing := [name for name in table.key if name not in {one.name for one in self.relation.columns}]:
            raise ConnectorError(
                f"{table.schema}.{table.name} no longer has the column {missing[0]} of the key by which its rows are "
                "read, or the publication excludes it. Stop the connector, reset its offsets and resume it: all "
                "tables are read again."
            )
        self._key_places = [[one.name for one in self.relation.columns].index(name) for name in table.key]
        lower = table.lower(number) if after is None else after
        self._send(self._statement(table, partitioned, lower, table.upper(number), condition))

    def _narrow(self, relation: Relation, key: Sequence[str]) -> Relation:
        """Keep the captured columns and the key's: the user may lack permission to read others."""
        has = self._selection.has_column
        columns = [one for one in relation.columns if one.name in key or has(relation.schema, relation.name, one.name)]
        return relation._replace(columns=tuple(columns))

    def _await_flush(self, session: Session) -> None:
        """Wait until the log is flushed up to the snapshot. A transaction with synchronous_commit=off is visible
        earlier, and a crash of the server could still undo it.
        """
        until = time.monotonic() + _FLUSH_SECONDS
        while time.monotonic() < until:
            ((flushed,),) = session.query("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8")
            if flushed >= self.until:
                return
            time.sleep(0.02)

    def _statement(
        self, table: PlannedTable, partitioned: bool, lower: Key | None, upper: Key | None, condition: str | None
    ) -> sql.Composed:
        assert self.relation is not None
        where = keys_between(table.key, lower, upper)
        if condition is not None:
            where = sql.SQL("({}) AND {}").format(sql.SQL(condition), where)
        order: sql.Composable = sql.SQL("")
        if table.key:
            order = sql.SQL(" ORDER BY {}").format(sql.SQL(", ").join(map(sql.Identifier, table.key)))
        if self._limit is not None:
            order = sql.SQL("{} LIMIT {}").format(order, sql.Literal(self._limit))
        return sql.SQL("COPY (SELECT {} FROM {}{} WHERE {}{}) TO STDOUT").format(
            sql.SQL(", ").join(sql.Identifier(column.name) for column in self.relation.columns),
            sql.SQL("" if partitioned else "ONLY "),
            sql.Identifier(self.relation.schema, self.relation.name),
            where,
            order,
        )

    def _send(self, statement: sql.Composed) -> None:
        self._pg = self._connection.pgconn
        self._pg.send_query(statement.as_bytes(self._connection))
        self._copying = False

    def key_of(self, row: RawRow) -> Key:
        """Return a row's key."""
        return tuple((row[place] or b"").decode() for place in self._key_places)

    def take(self, limit: int, seconds: float) -> list[RawRow]:
        """Return at most `limit` rows; fewer after `seconds`, or when `finished`. Raises `RetriableError`."""
        rows: list[RawRow] = []
        until = time.monotonic() + seconds
        try:
            while not self.finished and len(rows) < limit:
                if not self._copying and not self._begin_copy(until):
                    break
                size, data = self._pg.get_copy_data(1)
                if size > 0:
                    rows.append(split_row(bytes(data[: size - 1])))
                elif size < 0:
                    self._end()
                elif not self._await_data(until):
                    break
        except psycopg.OperationalError as error:
            raise RetriableError(f"The database server does not answer: {one_line(error)}.") from error
        return rows

    def _begin_copy(self, until: float) -> bool:
        while self._pg.is_busy():
            if not self._await_data(until):
                return False
        result = self._pg.get_result()
        if result is None or result.status != pq.ExecStatus.COPY_OUT:
            raise self._failure(result)
        self._copying = True
        return True

    def _await_data(self, until: float) -> bool:
        left = until - time.monotonic()
        if left <= 0 or not select.select([self._pg.socket], [], [], left)[0]:
            return False
        self._pg.consume_input()
        return True

    def _end(self) -> None:
        result = self._pg.get_result()
        if result is None or result.status != pq.ExecStatus.COMMAND_OK:
            raise self._failure(result)
        while self._pg.get_result() is not None:
            pass
        self.finished = True

    def _failure(self, result: Any) -> ConnectorError:
        words = " ".join(result.get_error_message().split()) if result is not None else "the server ended it"
        return RetriableError(f"The rows of a range cannot be read: {words}.")

    def finish(self) -> None:
        """End the transaction after all rows were read, so that the connection can read another range."""
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()
