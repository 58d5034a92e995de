"""Reads one task's share of the snapshot: one range after another, as records with an offset for each range; or a few
rows for a preview.

The rows of a range are read with one database snapshot and one COPY, in the order of the key.
"""

import logging
import re
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg
from psycopg import pq, sql

from ringfence.connectors.api import (
    ConnectorError,
    Converters,
    OffsetRecord,
    RetriableError,
    SourceOffset,
    SourceRecord,
)
from ringfence.connectors.builtin.postgres.json_records import JsonRun, find_json_records
from ringfence.connectors.builtin.postgres.offsets import (
    Key,
    Plan,
    PlannedTable,
    RangeProgress,
    Read,
    progress_of,
    range_partition,
)
from ringfence.connectors.builtin.postgres.pgoutput import Begin, Relation, RelationColumn
from ringfence.connectors.builtin.postgres.records import RecordMaker, RecordSettings, SourceTransaction
from ringfence.connectors.builtin.postgres.session import Server, Session, one_line
from ringfence.connectors.builtin.postgres.settings import Selection
from ringfence.connectors.builtin.postgres.snapshot_content import keys_between
from ringfence.connectors.builtin.postgres.tables import (
    Describe,
    Table,
    find_published,
    find_relation,
    read_name,
    read_table,
)

logger = logging.getLogger(__name__)


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


_COMMIT_SECONDS: Final = 0.5
_WAIT_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Source:
    """The server to read from, and the settings of records."""

    server: Server
    session: Session
    publication: str
    selection: Selection
    describe: Describe
    records: RecordSettings
    prefix: str
    converters: Converters | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """rows: the maximum in a batch; longest_seconds: for a table without a key, which is one Kafka transaction."""

    rows: int
    longest_seconds: float


class _OpenRange:
    """A range that is being read."""

    def __init__(self, source: Source, plan: Plan, table: PlannedTable, number: int, progress: RangeProgress) -> None:
        self.table, self.number = table, number
        self.began = time.monotonic()
        self.partition = range_partition(source.prefix, table, number)
        self.reading = RangeReading(
            source.server, source.session, source.publication, table, number, progress.last, source.selection
        )
        self.progress = progress.begin(self.reading.snapshot, self.reading.until)
        self._held_back: list[RawRow] = []
        tables = plan.tables
        self._first = self._mark("first", table == tables[0]) if number == 0 and not progress.rows else None
        self._last = self._mark("last", table == tables[-1]) if number == table.ranges - 1 else None
        if self.reading.relation is not None:
            try:
                self._shape: Table = source.describe(self.reading.relation)
            except BaseException:
                self.reading.close()
                raise
        # No transaction metadata: rows of a snapshot do not belong to a transaction.
        self._maker = RecordMaker(replace(source.records, partition=self.partition, metadata=False))
        self._json = find_json_records(source.converters, self._maker)

    @staticmethod
    def _mark(which: str, of_all: bool) -> str:
        return which if of_all else f"{which}_in_data_collection"

    def take(self, limit: int) -> list[SourceRecord]:
        """Return the next records; the last one's offset is the position after exactly these."""
        reading = self.reading
        rows = self._held_back + reading.take(limit, _WAIT_SECONDS)
        self._held_back = []
        if not reading.finished and rows and self._last is not None:
            self._held_back = [rows.pop()]  # it may be the last row, which is marked
        records = self._make_records(rows)
        if rows or reading.finished:
            key = reading.key_of(rows[-1]) if rows and self.table.key else self.progress.last
            self.progress = replace(
                self.progress,
                last=key,
                rows=self.progress.rows + len(rows),
                done=reading.finished,
                at_ms=time.time_ns() // 1_000_000,
            )
            offset = self.progress.as_offset()
            if records:
                records[-1].source_offset = offset
            else:
                records.append(OffsetRecord(self.partition, offset))
        return records

    def _make_records(self, rows: list[RawRow]) -> list[SourceRecord]:
        """Make the records of rows; their offset is the position before them."""
        reading = self.reading
        records: list[SourceRecord] = []
        at = SourceTransaction(
            Begin(reading.until, reading.time_us, 0), self.progress.as_offset(), "null", snapshot="true"
        )
        run: JsonRun | None = None
        for place, row in enumerate(rows):
            ends = self._first is not None or (self._last is not None and place == len(rows) - 1)
            if self._json is not None and not ends:
                at.snapshot = "true"
                run = run or self._json.begin_run(self._shape, at)
                if run is not None and run.append_read(row, reading.until):
                    continue
            if run is not None:
                run.end(records)
                run = None
            if self._first is not None:
                at.snapshot, self._first = self._first, None
            elif self._last is not None and reading.finished and place == len(rows) - 1:
                at.snapshot = self._last
            else:
                at.snapshot = "true"
            self._maker.read(records, self._shape, row, reading.until, at)
        if run is not None:
            run.end(records)
        return records

    def close(self) -> None:
        self.reading.close()


class ReadingPhase:
    """Reads one task's share. Call `poll` until `done`."""

    def __init__(
        self,
        source: Source,
        plan: Plan,
        share: list[tuple[PlannedTable, int]],
        offset: Read,
        limits: Limits,
        request_commit: Callable[[], None],
    ) -> None:
        self._source = source
        self._plan = plan
        self._limits = limits
        self._request_commit = request_commit
        progress_list = [(table, number, self._find_progress(offset, table, number)) for table, number in share]
        self._left = [one for one in progress_list if not one[2].done]
        self._left.reverse()
        self._open: _OpenRange | None = None
        self._uncommitted_since: float | None = None

    def _find_progress(self, offset: Read, table: PlannedTable, number: int) -> RangeProgress:
        progress = progress_of(self._plan, offset(range_partition(self._source.prefix, table, number)))
        if not table.key and progress.rows and not progress.done:
            logger.warning(
                "%s.%s has no key, so its rows are read again from the beginning: some of them are duplicated. Set "
                "transaction.boundary=connector to read them in one Kafka transaction",
                *(table.schema, table.name),
            )
            return RangeProgress(self._plan.id)
        return progress

    @property
    def done(self) -> bool:
        """Whether all records were returned."""
        return self._open is None and not self._left

    def poll(self) -> list[SourceRecord] | None:
        """Return the next records. Raises `ConnectorError`, and `RetriableError` if the server does not answer."""
        try:
            return self._poll()
        except RetriableError as error:
            raise self._interrupt(error) from None
        except psycopg.OperationalError as error:
            lost = RetriableError(f"The database server does not answer: {one_line(error)}.")
            raise self._interrupt(lost) from None
        except psycopg.Error as error:
            self.close()
            raise ConnectorError(f"The rows of a table cannot be read: {one_line(error)}.") from error

    def _interrupt(self, error: RetriableError) -> ConnectorError:
        """Close the range. With a key it can continue after the returned rows; without one, the task must restart."""
        self.close()
        if self._left and not self._left[-1][0].key and self._left[-1][2].rows:
            return ConnectorError(f"{error} A restart reads the rows of the table again, without duplicates.")
        return error

    def _poll(self) -> list[SourceRecord] | None:
        if self._open is None:
            if not self._left:
                return None
            self._open = _OpenRange(self._source, self._plan, *self._left[-1])
        current = self._open
        records = current.take(self._limits.rows)
        # If the connection is lost, the range continues after the returned rows.
        self._left[-1] = (current.table, current.number, current.progress)
        now = time.monotonic()
        if records and self._uncommitted_since is None:
            self._uncommitted_since = now
        whole = bool(current.table.key) or current.progress.done
        if current.progress.done:
            self._left.pop()
            self.close()
        elif not current.table.key and now - current.began > self._limits.longest_seconds:
            raise ConnectorError(
                f"{current.table.schema}.{current.table.name} has no key, so its rows must be read in one Kafka "
                f"transaction, which takes longer than {self._limits.longest_seconds:.0f} s. Raise "
                "producer.override.transaction.timeout.ms (and the brokers' transaction.max.timeout.ms), add a primary "
                "key, or exclude the table with table.exclude.list."
            )
        since = self._uncommitted_since
        if since is not None and whole and (now - since >= _COMMIT_SECONDS or not self._left):
            self._request_commit()
            self._uncommitted_since = None
            return records  # an empty list ends the transaction, too
        return records or None

    def close(self) -> None:
        """Close the connection of the open range."""
        if self._open is not None:
            self._open.close()
            self._open = None


_SAMPLE_ROWS: Final = 5
_OID: Final = "SELECT format('%%I.%%I', %s::text, %s::text)::regclass::oid::int8"


def read_sample(
    session: Session,
    tables: Sequence[tuple[str, str]],
    describe: Callable[[Relation], Table],
    maker: RecordMaker,
    offset: SourceOffset,
) -> list[SourceRecord]:
    """Return records of a few rows of each table, as in a snapshot (`op` is "r")."""
    records: list[SourceRecord] = []
    ((lsn, now),) = session.query(
        "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0')"
        "::int8, (extract(epoch FROM clock_timestamp()) * 1000000)::int8"
    )
    at = SourceTransaction(Begin(lsn, now, 0), offset, "null", snapshot="true")
    for schema, name in tables:
        ((oid,),) = session.query(_OID, [schema, name])
        columns = [column for column in read_table(session.query, oid).columns if not column.generated]
        table = describe(
            Relation(
                oid,
                schema,
                name,
                "f",
                tuple(RelationColumn(each.name, True, each.oid, each.typmod) for each in columns),
            )
        )
        column_list = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
        statement = sql.SQL("COPY (SELECT {} FROM {} LIMIT {}) TO STDOUT").format(
            column_list, sql.Identifier(schema, name), sql.Literal(_SAMPLE_ROWS)
        )
        with session.connection.cursor().copy(statement) as copy:
            for texts in copy.rows():
                row = [None if text is None else str(text).encode() for text in texts]
                maker.read(records, table, row, lsn, at)
    return records
