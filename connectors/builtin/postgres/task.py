"""Streams the changes of a database from the committed position on, whole source transactions at a time."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import psycopg

from ringfence.connectors.api import (
    ConnectorError,
    OffsetRecord,
    RetriableError,
    SourceRecord,
    SourceTask,
)
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres import slots
from ringfence.connectors.builtin.postgres.capture import (
    captured_tables,
    describer,
    record_settings,
    selection_of,
)
from ringfence.connectors.builtin.postgres.lsn import lsn_text
from ringfence.connectors.builtin.postgres.offsets import LSN, Position, between, position_of
from ringfence.connectors.builtin.postgres.reader import Describe, TransactionReader
from ringfence.connectors.builtin.postgres.records import VERSION, RecordMaker
from ringfence.connectors.builtin.postgres.sample import read_sample
from ringfence.connectors.builtin.postgres.session import Server, Session, one_line
from ringfence.connectors.builtin.postgres.slot_watch import Progress, SlotWatch
from ringfence.connectors.builtin.postgres.stream import Stream

logger = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.25
_GROUP_SECONDS: Final = 0.1
"""Source transactions share a Kafka transaction for at most so long while more of them arrive."""
_QUIET_SECONDS: Final = 60.0
"""Between commits of the position where `heartbeat.interval.ms` is 0."""
_DEFAULT_TIMEOUT_MS: Final = 60_000
_SAMPLED_TABLES: Final = 20
"""Of which a preview shows rows."""


class PostgresSourceTask(SourceTask):
    """One task: the changes of a database have one order.

    With `transaction.boundary=connector` a source transaction is never visible in parts. The server is told that it may
    forget changes only when Kafka has them (`commit`).
    """

    version: ClassVar[str | None] = VERSION
    _stream: Stream | None = None
    _session: Session | None = None
    _watch: SlotWatch | None = None

    def start(self, config: Mapping[str, str]) -> None:
        parsed = self._parsed = names.CONFIG_DEF.parse(config)
        self._server = Server(parsed, config.get("name", ""))
        self._slot = parsed.string(names.SLOT)
        self._publication = parsed.string(names.PUBLICATION)
        self._partition: dict[str, object] = {"server": parsed.string(names.PREFIX)}
        self._trial = names.TRIAL in config
        self._session = session = Session(self._server)
        self._reader: TransactionReader | None = None
        self._selection = selection_of(parsed)
        self._sample: list[SourceRecord] = []
        if self._trial:
            try:
                self._read_sample(session)
            except psycopg.Error as error:
                raise ConnectorError(f"The tables cannot be read: {one_line(error)}.") from error
            return
        self._limits(config)
        try:
            self._open(session)
        except psycopg.Error as error:
            raise ConnectorError(
                f"The database server refuses what the connector asks for: {one_line(error)}."
            ) from error

    def _read_sample(self, session: Session) -> None:
        tables = captured_tables(session, self._selection)[:_SAMPLED_TABLES]
        maker, describe = self._new_maker(session)
        self._sample = read_sample(session, tables, describe, maker, {})

    def _limits(self, config: Mapping[str, str]) -> None:
        timeout_ms = int(config.get("producer.override.transaction.timeout.ms", _DEFAULT_TIMEOUT_MS))
        self._longest_seconds = timeout_ms / 2000
        self._most_changes = self._parsed.integer(names.TRANSACTION_ROWS)
        interval = self._parsed.integer(names.HEARTBEAT) / 1000
        self._beats = interval > 0
        self._beat_seconds = interval or _QUIET_SECONDS
        query = self._parsed[names.HEARTBEAT_QUERY]
        self._beat_query = str(query) if query is not None else None
        self._beat_at = time.monotonic() + self._beat_seconds
        self._opened_at: float | None = None
        """Since when records are handed over that no commit was asked for."""
        self._torn = False
        """Whether the last of them stands within a source transaction."""
        self._split_xid = 0
        self._delivered: SourceRecord | None = None
        self._confirmable = 0
        self._retry = False

    def _begin_watch(self) -> None:
        self._progress = Progress()
        warn = self._parsed[names.RETAINED_WARN]
        assert isinstance(warn, int)
        self._watch = SlotWatch(self._server, self._slot, self.context.metrics, self._progress, warn)

    def _open(self, session: Session) -> None:
        committed = self.context.offset_reader.offset(self._partition)
        position = position_of(committed) if committed else None
        slots.prepare_publication(
            session,
            self._publication,
            self._parsed.string(names.AUTOCREATE),
            lambda: captured_tables(session, self._selection),
            via_root=self._parsed.boolean(names.VIA_ROOT),
        )
        slot = slots.find_slot(session, self._slot)
        if slot is None and position is None:
            slots.create_slot(session, self._slot, failover=self._parsed.boolean(names.SLOT_FAILOVER))
            slot = slots.find_slot(session, self._slot)
        slots.check_slot(self._slot, slot, self._server.database, position.lsn if position else None)
        assert slot is not None
        ((system,),) = session.query("SELECT system_identifier::text FROM pg_control_system()")
        if position is not None and position.system not in (None, system):
            raise ConnectorError(
                "The database server is another one than the committed offset is of: it was created again. What was "
                "changed in between is not known. To begin with it, stop the connector, reset its offsets and resume "
                "it; or give its topics another prefix."
            )
        start = position or Position(slot.confirmed or 0)
        slots.check_position(session, start.lsn)
        slots.free_slot(session, self._slot, self._server.application, self.context.wait)
        self._first = None if committed else OffsetRecord(self._partition, between(start.lsn, str(system), 0, 0))
        self._reader = self._new_reader(session, start, str(system))
        self._stream = self._new_stream(start.lsn)
        self._begin_watch()
        logger.info("Streaming from %s on, with the slot %s", lsn_text(start.lsn), self._slot)

    def _new_stream(self, start: int) -> Stream:
        messages = self._server_version() >= 140000 and "m" not in self._silent_operations()
        return Stream(self._server, self._slot, self._publication, start, messages=messages)

    def _server_version(self) -> int:
        assert self._session is not None
        return self._session.connection.info.server_version

    def _silent_operations(self) -> frozenset[str]:
        given = self._parsed[names.SKIPPED]
        assert isinstance(given, list)
        return frozenset(map(str, given))

    def _new_reader(self, session: Session, start: Position, system: str) -> TransactionReader:
        maker, describe = self._new_maker(session)
        self._maker = maker
        return TransactionReader(
            start,
            system,
            maker,
            self._selection,
            describe,
            self._partition,
            batch_size=self._parsed.integer(names.BATCH_SIZE),
        )

    def _new_maker(self, session: Session) -> tuple[RecordMaker, Describe]:
        parsed = self._parsed
        maker = RecordMaker(record_settings(parsed, self._server.database, self._partition, self._silent_operations()))
        return maker, describer(session, parsed, self._selection)

    def poll(self) -> Sequence[SourceRecord] | None:
        reader = self._reader
        if reader is None:
            sample, self._sample = self._sample, []
            return sample
        if self._first is not None:
            first, self._first = self._first, None
            self._request_commit()
            return [first]
        try:
            stream = self._stream or self._reconnect(reader)
            dry = stream.receive(reader.take, _WAIT_SECONDS)
        except RetriableError:
            self._disconnect()
            raise
        except psycopg.OperationalError as error:
            self._disconnect()
            raise RetriableError(f"The database server does not answer: {one_line(error)}.") from error
        self._progress.read(reader.newest_us, dry=dry)
        return self._batch(reader, stream, dry=dry)

    def _reconnect(self, reader: TransactionReader) -> Stream:
        """After a lost connection: the stream goes on behind what was read.

        A superseded attempt may come here, too. So nobody else's use of the slot is ended: whoever started last has it.
        """
        session = self._session
        assert session is not None
        try:
            slot = slots.find_slot(session, self._slot)
        except ConnectorError as error:
            raise RetriableError(str(error)) from error  # a server that restarts
        slots.check_slot(self._slot, slot, self._server.database, None)
        if slot is not None and slot.active_pid is not None:
            raise RetriableError(f"The replication slot {self._slot} is in use.")
        slots.check_position(session, reader.end)
        stream = self._stream = self._new_stream(reader.restart())
        logger.info("Streaming again from %s on", lsn_text(reader.end))
        return stream

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _batch(self, reader: TransactionReader, stream: Stream, *, dry: bool) -> Sequence[SourceRecord] | None:
        whole = reader.whole
        records = reader.hand_over()
        now = time.monotonic()
        if not records:
            if self._opened_at is not None and not self._torn and dry:
                self._request_commit()
                return []
            return self._heartbeat(reader, stream, now) if dry else None
        self._beat_at = now + self._beat_seconds
        self._torn = whole < len(records)
        if self.context.transaction_context is None:
            return records
        if self._opened_at is None:
            self._opened_at = now
        due = dry or now - self._opened_at >= _GROUP_SECONDS
        if not self._torn:
            if due:
                self._request_commit()
        elif self._parsed.string(names.TRANSACTIONS) == names.SPLIT or self._too_large(reader, now):
            self._request_commit()
        elif whole and due:
            self._request_commit(records[whole - 1])
            self._opened_at = now
        return records

    def _too_large(self, reader: TransactionReader, now: float) -> bool:
        """Whether the source transaction that is read has to become visible in several parts."""
        assert self._opened_at is not None
        if reader.changes < self._most_changes and now - self._opened_at < self._longest_seconds:
            return False
        if self._split_xid != reader.xid:
            self._split_xid = reader.xid
            logger.warning(
                "The source transaction %d is too large for one Kafka transaction, and becomes visible in parts: %d "
                "changes after %.0f s. Raise %s and producer.override.transaction.timeout.ms to keep such ones whole",
                *(reader.xid, reader.changes, now - self._opened_at, names.TRANSACTION_ROWS),
            )
        return True

    def _request_commit(self, record: SourceRecord | None = None) -> None:
        if self.context.transaction_context is not None:
            self.context.transaction_context.commit_transaction(record)
        self._opened_at = None

    def _heartbeat(self, reader: TransactionReader, stream: Stream, now: float) -> Sequence[SourceRecord] | None:
        """Commit the position where nothing that is read has changed: the server holds its log back until then."""
        if now < self._beat_at or reader.inside or self._opened_at is not None:
            return None
        self._beat_at = now + self._beat_seconds
        if self._beats and self._beat_query is not None:
            assert self._session is not None
            self._session.query(self._beat_query)
        if stream.server_end <= reader.end and not self._beats:
            return None
        offset = reader.heartbeat(stream.server_end)
        self._request_commit()
        return [self._maker.heartbeat(offset) if self._beats else OffsetRecord(self._partition, offset)]

    def commit_record(self, record: SourceRecord) -> None:
        self._delivered = record

    def commit(self) -> None:
        """Only now may the server forget changes.

        Where the worker is not exactly once, a record may be delivered before its offset is written, so what is
        confirmed is what was delivered one commit earlier.
        """
        delivered = self._delivered
        lsn = delivered.source_offset.get(LSN) if delivered is not None and delivered.source_offset else None
        if self.context.transaction_context is not None and isinstance(lsn, int):
            self._confirmable = lsn
        if self._confirmable and self._stream is not None:
            try:
                self._stream.confirm(self._confirmable)
            except psycopg.OperationalError:
                logger.info("The position cannot be confirmed now; the next commit does it")
        if isinstance(lsn, int):
            self._confirmable = lsn

    def stop(self) -> None:
        self._disconnect()
        if self._watch is not None:
            self._watch.close()
        if self._session is not None:
            self._session.close()
