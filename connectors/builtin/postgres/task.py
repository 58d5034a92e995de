"""The task: reads the rows of a database, and then the stream of its changes."""

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import psycopg

from ringfence.connectors.api import ConnectorError, OffsetRecord, RetriableError, SourceRecord, SourceTask
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres import slots
from ringfence.connectors.builtin.postgres.records import VERSION
from ringfence.connectors.builtin.postgres.session import one_line
from ringfence.connectors.builtin.postgres.setup import Setup, captured_tables
from ringfence.connectors.builtin.postgres.slots import (
    LostPosition,
    Progress,
    SlotWatch,
    StreamStart,
    open_slot,
    prepare_publication,
    renew_slot,
)
from ringfence.connectors.builtin.postgres.snapshot.content import SnapshotContent
from ringfence.connectors.builtin.postgres.snapshot.plan import share_of
from ringfence.connectors.builtin.postgres.snapshot.reading import read_sample
from ringfence.connectors.builtin.postgres.snapshot.run import SnapshotRun, SnapshotState, find_state
from ringfence.connectors.builtin.postgres.streaming import Streaming

logger = logging.getLogger(__name__)

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
