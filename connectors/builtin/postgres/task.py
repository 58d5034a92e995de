"""The task: reads the rows of a database, and then the stream of its changes, from a position on
and in complete source transactions.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import psycopg

from ringfence.connectors.api import (
    ConnectorError,
    OffsetRecord,
    RetriableError,
    SourceOffset,
    SourceRecord,
    SourceTask,
    SourceTaskContext,
)
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres import slots
from ringfence.connectors.builtin.postgres.incremental_snapshots import IncrementalSnapshots
from ringfence.connectors.builtin.postgres.json_records import find_json_records
from ringfence.connectors.builtin.postgres.offsets import LSN, lsn_text, share_of
from ringfence.connectors.builtin.postgres.records import VERSION
from ringfence.connectors.builtin.postgres.session import Setup, captured_tables, one_line
from ringfence.connectors.builtin.postgres.slots import (
    LostPosition,
    Progress,
    SlotWatch,
    StreamStart,
    open_slot,
    prepare_publication,
    renew_slot,
)
from ringfence.connectors.builtin.postgres.snapshot_content import SnapshotContent
from ringfence.connectors.builtin.postgres.snapshot_reading import read_sample
from ringfence.connectors.builtin.postgres.snapshot_run import SnapshotRun, SnapshotState, find_state
from ringfence.connectors.builtin.postgres.stream import SignalTable, Stream, TransactionReader

logger = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.25
_GROUP_SECONDS: Final = 0.25
"""While source transactions keep arriving, they share a Kafka transaction for at most this long."""
_PAUSE_SECONDS: Final = 0.03
"""The time between two commits. A commit costs the broker as much as hundreds of rows."""
_QUIET_SECONDS: Final = 60.0
"""The time between commits of the position if `heartbeat.interval.ms` is 0."""
_ANSWER_SECONDS: Final = 5.0
"""The time between commits of the position at the server's request: it waits for them when it shuts down."""


class Streaming:
    """The stream of one task.

    With `transaction.boundary=connector`, a source transaction is never visible in parts. Changes are confirmed to the
    server only when they are in Kafka (`commit`).
    """

    _stream: Stream | None = None

    def __init__(
        self,
        setup: Setup,
        context: SourceTaskContext,
        opened: StreamStart,
        progress: Progress,
        contained: SnapshotContent | None = None,
    ) -> None:
        """contained: the changes that a snapshot's rows contain. Raises `ConnectorError`, and psycopg's errors."""
        self._setup = setup
        self._context = context
        self._partition = setup.partition
        self._slot = setup.slot
        self._progress = progress
        settings = self._settings = setup.settings
        self._longest_seconds = setup.longest_seconds
        self._most_changes = settings.integer(names.TRANSACTION_ROWS)
        interval = settings.integer(names.HEARTBEAT) / 1000
        self._beats = interval > 0
        self._beat_seconds = interval or _QUIET_SECONDS
        query = settings[names.HEARTBEAT_QUERY]
        self._beat_query = str(query) if query is not None else None
        self._beat_at = time.monotonic() + self._beat_seconds
        self._asked_for_position = False
        self._answered_at = 0.0
        self._commit_from = 0.0
        """Until then, records wait for more records."""
        self._opened_at: float | None = None
        """When the first of the records was returned for which no commit was requested yet."""
        self._torn = False
        """Whether the last of them is within a source transaction."""
        self._split_xid = 0
        self._delivered: SourceOffset | None = None
        self._confirmable = 0
        slots.free_slot(setup.session, setup.slot, setup.server.application, context.wait)
        self._maker = setup.new_maker()
        signals = SignalTable.of(setup.settings, setup.prefix)
        self._reader = TransactionReader(
            opened.start,
            opened.origin,
            self._maker,
            setup.selection,
            setup.new_describer(),
            setup.partition,
            batch_size=setup.batch_size,
            contained=contained,
            signals=signals,
            json=find_json_records(context.converters, self._maker),
        )
        self._incremental = IncrementalSnapshots(setup, context, self._reader, signals)
        self._stream = self._new_stream(opened.start.lsn)
        logger.info("Streaming from %s, with the slot %s", lsn_text(opened.start.lsn), setup.slot)

    def _new_stream(self, start: int) -> Stream:
        setup = self._setup
        messages = setup.query_server_version() >= 140000 and "m" not in setup.silent_operations
        return Stream(setup.server, setup.slot, setup.publication, start, messages=messages)

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the records that have arrived."""
        reader = self._reader
        try:
            stream = self._stream or self._reconnect(reader)
            snapshots = self._incremental
            dry = stream.receive(reader.take, 0.0 if snapshots.busy else self._wait_seconds())
            snapshots.carry_out_requests()
            if dry and snapshots.busy:
                snapshots.read_chunk(stream)
                snapshots.carry_out_requests()
        except RetriableError:
            self.close()
            raise
        except psycopg.OperationalError as error:
            self.close()
            raise RetriableError(f"The database server does not answer: {one_line(error)}.") from error
        self._progress.read(reader.newest_us, dry=dry)
        return self._batch(reader, stream, dry=dry)

    def _wait_seconds(self) -> float:
        """Return how long to wait for changes: at most until earlier ones must be committed."""
        if self._opened_at is None or self._torn:
            return _WAIT_SECONDS
        return max(0.0, min(_WAIT_SECONDS, self._commit_from - time.monotonic()))

    def _reconnect(self, reader: TransactionReader) -> Stream:
        """Restart the stream after what was read, when the connection was lost.

        A superseded attempt may do this, too. So it does not end another connection to the slot: the attempt that
        started last keeps the slot.
        """
        session = self._setup.session
        try:
            slot = slots.find_slot(session, self._slot)
        except ConnectorError as error:
            raise RetriableError(str(error)) from error  # the server may be restarting
        slots.check_slot(self._slot, slot, self._setup.server.database, None)
        if slot is not None and slot.active_pid is not None:
            raise RetriableError(f"The replication slot {self._slot} is in use.")
        slots.check_position(session, reader.end)
        stream = self._stream = self._new_stream(reader.restart())
        logger.info("Streaming again from %s", lsn_text(reader.end))
        return stream

    def _batch(self, reader: TransactionReader, stream: Stream, *, dry: bool) -> Sequence[SourceRecord] | None:
        whole = reader.whole
        records = reader.hand_over()
        now = time.monotonic()
        if not records:
            if self._opened_at is not None and not self._torn and dry:
                if now < self._commit_from:
                    return None
                self._request_commit()
                return []
            return self._heartbeat(reader, stream, now, dry=dry)
        self._beat_at = now + self._beat_seconds
        self._torn = whole < len(records)
        if self._context.transaction_context is None:
            return records
        if self._opened_at is None:
            self._opened_at = now
        due = (
            dry and now >= self._commit_from and not self._incremental.busy
        ) or now - self._opened_at >= _GROUP_SECONDS
        if not self._torn:
            if due:
                self._request_commit()
        elif self._settings.string(names.TRANSACTIONS) == names.SPLIT or self._too_large(reader, now):
            self._request_commit()
        elif whole and due:
            self._request_commit(records[whole - 1])
            self._opened_at = now
        return records

    def _too_large(self, reader: TransactionReader, now: float) -> bool:
        """Return whether the current source transaction must become visible in several parts."""
        assert self._opened_at is not None
        if reader.changes < self._most_changes and now - self._opened_at < self._longest_seconds:
            return False
        if self._split_xid != reader.xid:
            self._split_xid = reader.xid
            logger.warning(
                "The source transaction %d is too large for one Kafka transaction, and becomes visible in parts: %d "
                "changes after %.0f s. Raise %s and producer.override.transaction.timeout.ms to avoid that",
                *(reader.xid, reader.changes, now - self._opened_at, names.TRANSACTION_ROWS),
            )
        return True

    def _request_commit(self, record: SourceRecord | None = None) -> None:
        if self._context.transaction_context is not None:
            self._context.transaction_context.commit_transaction(record)
        self._opened_at = None
        self._commit_from = time.monotonic() + _PAUSE_SECONDS

    def _heartbeat(
        self, reader: TransactionReader, stream: Stream, now: float, *, dry: bool
    ) -> Sequence[SourceRecord] | None:
        """Commit the position if no captured table has changed, so that the server can remove its log."""
        if self._opened_at is not None or reader.torn:
            return None
        end = reader.end if reader.inside else max(reader.end, stream.server_end)
        if stream.reply_requested and end > self._confirmable and now - self._answered_at >= _ANSWER_SECONDS:
            stream.reply_requested, self._answered_at = False, now
            return self._commit_position(reader.heartbeat(end))
        if now < self._beat_at:
            return None
        if dry and not self._asked_for_position:
            # Without a request, the server sends it every half minute. The answer arrives before the next poll returns.
            stream.request_position()
            self._asked_for_position = True
            return None
        self._asked_for_position = False
        self._beat_at = now + self._beat_seconds
        if self._beats and self._beat_query is not None:
            self._setup.session.query(self._beat_query)
        if end <= self._confirmable and not self._beats:
            return None
        return self._commit_position(reader.heartbeat(end))

    def _commit_position(self, offset: SourceOffset) -> Sequence[SourceRecord]:
        self._request_commit()
        return [self._maker.heartbeat(offset) if self._beats else OffsetRecord(self._partition, offset)]

    def commit_record(self, record: SourceRecord) -> None:
        """See `SourceTask`."""
        if record.source_offset is not None and LSN in record.source_offset:
            self._delivered = record.source_offset

    def commit(self) -> None:
        """Confirm the delivered changes to the server, which may now remove them.

        If the worker is not exactly once, a record may be delivered before its offset is written. Then this confirms
        what the previous commit has delivered.
        """
        lsn = None if self._delivered is None else self._delivered.get(LSN)
        if self._context.transaction_context is not None and isinstance(lsn, int):
            self._confirmable = lsn
        if self._confirmable and self._stream is not None:
            try:
                self._stream.confirm(self._confirmable)
            except psycopg.OperationalError:
                logger.info("The position cannot be confirmed now; the next commit will confirm it")
        if isinstance(lsn, int):
            self._confirmable = lsn

    def close(self) -> None:
        """End the stream. `poll` starts it again."""
        self._incremental.close()
        if self._stream is not None:
            self._stream.close()
            self._stream = None


_SAMPLED_TABLES: Final = 20
"""The maximum number of tables in a preview."""
_IDLE_SECONDS: Final = 1.0
_TRIES: Final = 3


class PostgresSourceTask(SourceTask):
    """Reads a share of the snapshot; then the first task streams the changes, whose order is total.

    With `transaction.boundary=connector`, a source transaction is never visible in parts. Changes are confirmed to the
    server only when they are in Kafka (`commit`).
    """

    version: ClassVar[str | None] = VERSION
    polls_during_commit = True
    _setup: Setup | None = None
    _opened: StreamStart | None = None
    _snapshot: SnapshotRun | None = None
    _streaming: Streaming | None = None
    _watch: SlotWatch | None = None
    _claimed = False
    """Whether records of rows or changes were returned, or an offset was committed."""

    def start(self, config: Mapping[str, str]) -> None:
        setup = self._setup = Setup(config)
        self._number, self._tasks = share_of(config)
        self._first: list[SourceRecord] = []
        """The records that the first `poll` returns."""
        trial = names.TRIAL in config
        try:
            if trial:
                tables = captured_tables(setup.session, setup.selection)[:_SAMPLED_TABLES]
                self._first = read_sample(setup.session, tables, setup.new_describer(), setup.new_maker(), {})
            else:
                self._open_anew(setup)
        except psycopg.Error as error:
            words = "The tables cannot be read" if trial else "The database server refused a query of the connector"
            raise ConnectorError(f"{words}: {one_line(error)}.") from error

    def _open_anew(self, setup: Setup) -> None:
        """Open everything. Repeat that if the slot is dropped before anything is committed: nothing is lost then."""
        for _ in range(_TRIES - 1):
            try:
                self._open(setup)
                return
            except LostPosition as error:
                if self._opened is None or not self._opened.new:
                    raise
                self._forget_slot(error)
        self._open(setup)

    def _forget_slot(self, error: LostPosition) -> None:
        logger.warning("The slot was dropped before anything was committed, so the task begins again: %s", error)
        self._close()
        self._opened = self._snapshot = self._streaming = self._watch = None
        self._first = []

    def _open(self, setup: Setup) -> None:
        mode = setup.settings.string(names.SNAPSHOT)
        state = find_state(setup.prefix, mode, self.context.offset_reader.offset)
        if self._number == 0:
            prepare_publication(setup)
            if mode != names.INITIAL_ONLY:
                self._opened, state = self._open_slot(setup, mode, state)
                self._begin_watch(setup)
        if state.has_work:
            position = None if self._opened is None or not self._opened.new else self._opened.offset
            first = [] if position is None else [OffsetRecord(setup.partition, position)]
            self._snapshot = SnapshotRun(setup, self.context, mode, state, self._number, self._tasks, first)
        elif self._opened is not None:
            if self._opened.new:
                self._first = [OffsetRecord(setup.partition, self._opened.offset)]
            self._stream(state.new_contained(setup.session.query, self._opened.start.lsn))

    def _open_slot(self, setup: Setup, mode: str, state: SnapshotState) -> tuple[StreamStart, SnapshotState]:
        """Open the slot. If changes were lost and the mode is `when_needed`, begin a new snapshot.

        Not while several tasks share a snapshot: the others would continue with its plan. Returns the new state, too.
        """
        try:
            return open_slot(setup, state.committed), state
        except LostPosition as error:
            if mode != names.WHEN_NEEDED or self._tasks > 1:
                raise
            logger.warning("Changes were lost. With %s=%s, all tables are read again. %s", names.SNAPSHOT, mode, error)
            return renew_slot(setup), SnapshotState(setup.prefix, None, None, has_work=True)

    def _begin_watch(self, setup: Setup) -> None:
        """Start to measure now: the server already retains its log while the snapshot is read."""
        self._progress = Progress()
        warn = setup.settings.integer(names.RETAINED_WARN)
        self._watch = SlotWatch(setup.server, setup.slot, self.context.metrics, self._progress, warn)

    def _stream(self, contained: SnapshotContent | None) -> None:
        assert self._setup is not None
        assert self._opened is not None
        self._streaming = Streaming(self._setup, self.context, self._opened, self._progress, contained)

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._first:
            first, self._first = self._first, []
            if self.context.transaction_context is not None:
                self.context.transaction_context.commit_transaction()
            return first
        try:
            records = self._poll()
        except LostPosition as error:
            if self._claimed or self._opened is None or not self._opened.new:
                raise
            assert self._setup is not None
            self._forget_slot(error)
            self._open_anew(self._setup)
            return None
        self._claimed = self._claimed or bool(records)
        return records

    def _poll(self) -> Sequence[SourceRecord] | None:
        if self._streaming is not None:
            return self._streaming.poll()
        if self._snapshot is not None:
            if not self._claimed:
                self._require_slot()
            records = self._snapshot.poll()
            if records is None and self._snapshot.state is not None and self._opened is not None:
                assert self._setup is not None
                try:
                    self._stream(self._snapshot.state.new_contained(self._setup.session.query, self._opened.start.lsn))
                except psycopg.Error as error:
                    raise RetriableError(f"The stream cannot be started now: {one_line(error)}.") from error
                self._snapshot = None
            return records
        self.context.wait(_IDLE_SECONDS)
        return None

    def _require_slot(self) -> None:
        """Raise `LostPosition` if the slot was dropped since it was opened."""
        setup = self._setup
        if self._opened is not None and setup is not None:
            try:
                slots.check_slot(setup.slot, slots.find_slot(setup.session, setup.slot), setup.server.database, None)
            except psycopg.OperationalError as error:
                raise RetriableError(f"The database server does not answer: {one_line(error)}.") from error

    def commit_record(self, record: SourceRecord) -> None:
        self._claimed = True
        if self._streaming is not None:
            self._streaming.commit_record(record)

    def commit(self) -> None:
        if self._streaming is not None:
            self._streaming.commit()

    def stop(self) -> None:
        self._close()
        if self._setup is not None:
            self._setup.session.close()

    def _close(self) -> None:
        if self._streaming is not None:
            self._streaming.close()
        if self._snapshot is not None:
            self._snapshot.close()
        if self._watch is not None:
            self._watch.close()
