"""Incremental snapshots of a running stream: carries out requests, and reads one chunk after another.

A chunk is the next rows of a table in the order of its key, with the database snapshot they were read with. It is read
when the stream has no more messages. Then the stream is read up to the position after everything that the chunk sees,
and both are returned as one batch, so that they are committed in one Kafka transaction: no consumer sees a row without
the other changes of its transaction, and only the next key must be stored.
"""

import logging
import time
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from ringfence.connectors.api import (
    ConnectorError,
    Gauge,
    OffsetRecord,
    RetriableError,
    SourceMetrics,
    SourceRecord,
    SourceTaskContext,
)
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.offsets import (
    IncrementalState,
    Key,
    PlannedTable,
    QueuedTable,
    incremental_partition,
    state_of,
)
from ringfence.connectors.builtin.postgres.pgoutput import Begin, Relation
from ringfence.connectors.builtin.postgres.records import RecordMaker, SourceTransaction
from ringfence.connectors.builtin.postgres.session import Setup
from ringfence.connectors.builtin.postgres.snapshot_content import EarlierTransactions, Visibility, Window
from ringfence.connectors.builtin.postgres.snapshot_reading import RangeReading, RawRow
from ringfence.connectors.builtin.postgres.snapshot_run import Rate, TableSize, find_keyed, find_tables
from ringfence.connectors.builtin.postgres.stream import SignalTable, Stream, TransactionReader
from ringfence.connectors.sdk.names import list_first
from ringfence.connectors.sdk.snapshot_signals import EXECUTE, SnapshotRequest, parse_request

_CHUNK_LOCK_MS: Final = 50
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
            lock_ms=_CHUNK_LOCK_MS,
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


logger = logging.getLogger(__name__)


_PREFIX: Final = "incremental_snapshot_"


class IncrementalGauges:
    """The gauges of an incremental snapshot. They do not exist before the first snapshot."""

    def __init__(self, metrics: SourceMetrics) -> None:
        self._metrics = metrics
        self._gauges: dict[str, Gauge] = {}
        self._rate = Rate()
        self._table: Gauge | None = None

    def show(self, state: IncrementalState) -> None:
        """Set the gauges to the current state."""
        if not state.queue and not self._gauges:
            return
        left = state.rows_left
        rate = self._rate.measure(state.total)
        reading = rate if state.has_work else None
        self._set("tables_left", "Tables of the incremental snapshot that are not complete yet", len(state.queue))
        self._set("rows", "Rows of the incremental snapshot that were read", state.total)
        self._set(
            "rows_estimated", "Rows of the incremental snapshot, as estimated by the database", state.total + left
        )
        self._set("rows_per_second", "Rows of the incremental snapshot per second, over the last minute", reading)
        self._set(
            "left",
            "Time until the incremental snapshot is complete, at this rate",
            left / reading if reading else None,
            unit="seconds",
        )
        self._set("paused", "Whether the incremental snapshot is paused", float(state.paused))
        self._show_table(state)

    def _set(self, name: str, description: str, value: float | None, unit: str = "") -> None:
        gauge = self._gauges[name] = self._metrics.gauge(_PREFIX + name, description, unit=unit)
        gauge.set(value)

    def _show_table(self, state: IncrementalState) -> None:
        if self._table is not None:
            self._table.set(None)
            self._table = None
        if state.queue:
            first = state.queue[0]
            of_all = f"Rows of the table that were read again, of about {first.rows}"
            self._table = self._metrics.gauge(_PREFIX + "table_rows", of_all, labels={"table": first.name})
            self._table.set(state.rows)


_WINDOW_SECONDS: Final = 2.0
_LOCK_MS: Final = 1000
_LOOK_SECONDS: Final = 0.5
_REPLY_SECONDS: Final = 0.02
_MOST_BATCHES: Final = 2
"""The maximum number of the stream's batches that are returned with a chunk."""


class IncrementalSnapshots:
    """The incremental snapshots of one stream."""

    def __init__(
        self, setup: Setup, context: SourceTaskContext, reader: TransactionReader, signals: SignalTable | None
    ) -> None:
        """Raises `ConnectorError`."""
        self._setup = setup
        self._context = context
        self._reader = reader
        self._signals = signals
        self._partition = incremental_partition(setup.prefix)
        self.state = state_of(context.offset_reader.offset(self._partition))
        self._maker = RecordMaker(replace(setup.records, partition=self._partition, metadata=False))
        self._describe = setup.new_describer()
        self._chunks = ChunkReader(setup, setup.settings.integer(names.CHUNK_SIZE))
        self._gauges = IncrementalGauges(context.metrics)
        self._earlier = EarlierTransactions(setup.session.query)
        self._look_at = 0.0
        if self.state.queue:
            self._begin_recording()
            self._gauges.show(self.state)
            logger.info("The incremental snapshot continues with %s", self.state.queue[0].name)

    @property
    def busy(self) -> bool:
        """Whether to read a chunk when the stream has no more messages."""
        return self.state.has_work and time.monotonic() >= self._look_at

    def carry_out_requests(self) -> None:
        """Carry out the requests from the API and the stream. Each commits its result."""
        for record, kind, data in self._signals.take() if self._signals is not None else ():
            self._carry_out(kind, data)
            record.source_offset = self.state.as_offset()
        if self._reader.inside:
            return
        for signal in self._context.signals:
            if signal.number > self.state.signal:
                self._carry_out(signal.kind, signal.data)
                self.state = replace(self.state, signal=signal.number)
                self._reader.add([OffsetRecord(self._partition, self.state.as_offset())])

    def _carry_out(self, kind: str, data: object) -> None:
        """Carry out a request. If it is refused, the log and the state's note contain the reason."""
        before = self.state
        try:
            request = parse_request(kind, data)
            self.state = self._execute(request) if request.kind == EXECUTE else before.obey(request)
            logger.info("Signal %s: %s", kind, self.state.note)
        except ValueError as error:
            self.state = replace(before, note=f"Refused {kind[:40]}: {error}.")
            logger.warning("The signal %s was refused: %s", kind, error)
        if self.state.queue and not before.queue:
            self._begin_recording()
        if not self.state.queue:
            self._end_recording()
        self._gauges.show(self.state)

    def _execute(self, request: SnapshotRequest) -> IncrementalState:
        setup = self._setup
        try:
            setup.session.query(f"SET lock_timeout = {_LOCK_MS}")
            tables = find_tables(setup.session, setup.publication, setup.selection)
            setup.session.query("SET lock_timeout = 0")
        except psycopg.errors.LockNotAvailable as error:
            setup.session.query("SET lock_timeout = 0")
            raise ValueError("a table is locked, so the tables cannot be listed. Request it again") from error
        except psycopg.Error as error:
            raise read_error(error) from error
        matches = [one for one in tables if request.names(f"{one.schema}.{one.name}")]
        if not matches:
            raise ValueError(
                f"no captured and published table matches {', '.join(request.tables)[:200]}. Check "
                f"{names.TABLES} and the publication"
            )
        if keyless := [one for one in matches if not one.key]:
            raise ValueError(
                f"{keyless[0].schema}.{keyless[0].name} has no primary key and no index as replica identity, so it "
                "cannot be read in chunks"
            )
        queued = [QueuedTable(one.oid, f"{one.schema}.{one.name}", one.rows) for one in matches]
        return self.state.execute(queued, f"To be read: {list_first([one.name for one in queued], 5)}.")

    def _begin_recording(self) -> None:
        """Record the transactions that the stream delivers from now on. Wait for those that are running now: they may
        already have been delivered, or have begun before their table was published."""
        self._earlier = EarlierTransactions(self._setup.session.query)
        self._reader.delivered = set()

    def _end_recording(self) -> None:
        self._reader.delivered = None
        self._chunks.close()

    def read_chunk(self, stream: Stream) -> None:
        """Add the next chunk to the reader's records, with the stream's records up to the position after it.

        If that is not possible now, do nothing. Raises `ConnectorError`.
        """
        try:
            self._read_chunk(stream)
        except psycopg.Error as error:
            self._chunks.close()
            raise read_error(error) from error

    def _read_chunk(self, stream: Stream) -> None:
        reader = self._reader
        if reader.leaves_out and not reader.inside:  # on an idle server, no transaction shows that it was passed
            reader.pass_position(stream.server_end)
            stream.request_position()
        if reader.inside or reader.leaves_out or not self._is_quiet():
            self._look_at = time.monotonic() + (0 if reader.inside else _LOOK_SECONDS)
            return
        queued = self.state.queue[0]
        size = find_keyed(self._setup.session, queued.oid)
        if size is None or not size.key:
            self._finish(f"{queued.name} no longer has a key" if size else f"{queued.name} was dropped")
            return
        if not self.state.begun:
            self.state = self.state.begin(self._chunks.find_upper(size))
        if self.state.upper is None:
            self._finish(f"{queued.name} is empty")
            return
        assert reader.delivered is not None
        try:
            chunk = self._chunks.read(size, self.state, reader.delivered)
        except RetriableError as error:
            self._put_off(str(error))
            return
        except ConnectorError as error:
            if isinstance(error.__cause__, psycopg.OperationalError):
                raise RetriableError(str(error)) from error
            self._finish(str(error).rstrip("."))
            return
        if chunk is None:
            self._put_off("The newest transactions are not visible to snapshots yet.")
            return
        reader.delivered.clear()
        self._join(stream, size, chunk)

    def _put_off(self, why: str) -> None:
        logger.info("The next chunk of the incremental snapshot waits: %s", why)
        self._look_at = time.monotonic() + _LOOK_SECONDS

    def _is_quiet(self) -> bool:
        """Return whether all transactions that were running when recording began have ended."""
        left = self._earlier.count()
        if left:
            logger.info("The incremental snapshot waits for %d transactions that started before it", left)
        return not left

    def _join(self, stream: Stream, size: TableSize, chunk: Chunk) -> None:
        reader, setup = self._reader, self._setup
        keys = frozenset() if self._maker.skips("r") else frozenset(chunk.keys)
        with_metadata = setup.records.metadata
        window = Window(chunk.table, chunk.view, keys, chunk.until, with_metadata=with_metadata)
        start = len(reader.records)
        reader.open_window(window)
        try:
            reached = self._await(stream, window, start)
        finally:
            reader.open_window(None)
        if not reached:
            self._put_off(f"{size.schema}.{size.name}: {window.broken or 'the stream is too far behind'}.")
            return
        finished = len(chunk.rows) < self._chunks.limit
        self.state = self.state.advance(chunk.keys[-1] if chunk.keys else self.state.last, len(chunk.rows))
        if finished:
            self.state = self.state.finish_table(f"{size.schema}.{size.name}: {self.state.rows} rows.")
            logger.info("The incremental snapshot has read %s", self.state.note)
        reader.put_before(start, self._make_records(chunk), window.contained)
        self._gauges.show(self.state)
        if not self.state.queue:
            self._end_recording()

    def _await(self, stream: Stream, window: Window, start: int) -> bool:
        """Read the stream up to the window's end. Return False if that takes too long, or the window is broken."""
        reader = self._reader
        most = _MOST_BATCHES * self._setup.batch_size
        deadline = time.monotonic() + _WINDOW_SECONDS
        while not (reader.has_passed(window.until) or (not reader.inside and stream.server_end >= window.until)):
            if window.broken or len(reader.records) - start > most or time.monotonic() > deadline:
                return False
            stream.request_position()
            stream.receive(reader.take, _REPLY_SECONDS)
        return not window.broken

    def _make_records(self, chunk: Chunk) -> Sequence[SourceRecord]:
        records: list[SourceRecord] = []
        offset = self.state.as_offset()
        if chunk.rows:
            assert chunk.relation is not None
            table = self._describe(chunk.relation)
            at = SourceTransaction(Begin(chunk.until, chunk.time_us, 0), offset, "null", snapshot="incremental")
            for row in chunk.rows:
                self._maker.read(records, table, row, chunk.until, at)
        return records or [OffsetRecord(self._partition, offset)]

    def _finish(self, why: str) -> None:
        """Remove the first table from the queue, and commit that. why: the note."""
        self.state = self.state.finish_table(f"{why}.")
        logger.info("Incremental snapshot: %s", self.state.note)
        self._reader.add([OffsetRecord(self._partition, self.state.as_offset())])
        self._gauges.show(self.state)
        if not self.state.queue:
            self._end_recording()

    def close(self) -> None:
        self._chunks.close()
