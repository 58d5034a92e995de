"""The replication stream: logical decoding over COPY_BOTH, and the position that is confirmed to the server.

`TransactionReader` turns its messages into batches of records: source transactions, what to skip, and offsets. It has
no connection of its own: the caller passes the messages, and `Describe` queries the catalog. `SignalTable` collects
Debezium's signals: each row that is inserted into its table, with the columns id, type and data, is a request.
"""

import logging
import select
import struct
import threading
import time
from collections.abc import Callable, Sequence, Set
from typing import Final, NamedTuple

import psycopg
from psycopg import pq

from ringfence.connectors.api import (
    ConnectorError,
    OffsetRecord,
    ParsedConfig,
    RetriableError,
    SourceOffset,
    SourceRecord,
)
from ringfence.connectors.builtin.postgres import pgoutput
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.json_records import JsonRecords, OpenRun
from ringfence.connectors.builtin.postgres.offsets import (
    AlreadyRead,
    Origin,
    Position,
    between,
    incremental_partition,
    lsn_text,
    start_at,
    within,
)
from ringfence.connectors.builtin.postgres.pgoutput import Relation, read_row
from ringfence.connectors.builtin.postgres.records import RecordMaker, SourceTransaction
from ringfence.connectors.builtin.postgres.session import Server, one_line
from ringfence.connectors.builtin.postgres.settings import Selection
from ringfence.connectors.builtin.postgres.slots import LostPosition
from ringfence.connectors.builtin.postgres.snapshot_content import SnapshotContent, Window, leave_out
from ringfence.connectors.builtin.postgres.tables import Describe, KnownTables, decode_change

logger = logging.getLogger(__name__)

_STATUS: Final = struct.Struct(">cQQQqB").pack
_EPOCH_S: Final = 946_684_800
_STATUS_SECONDS: Final = 5.0
_LONGEST_SECONDS: Final = 0.5
"""The longest time that `receive` processes messages while none of them leads to a record."""
_NO_SLOT: Final = b"42704"
"""The state `undefined_object`."""
_DATA: Final = 119  # w
_KEEPALIVE: Final = 107  # k
HEADER: Final = 25
"""Bytes of an XLogData message's header: kind, the content's position, the end of the server's log, time."""

Take = Callable[[bytes | memoryview], bool]
"""`take(message)`: processes one XLogData message with its header; returns True if that is enough for now."""


def position_of(message: bytes | memoryview) -> int:
    """Return the position of an XLogData message's content."""
    return int.from_bytes(message[1:9], "big")


class Stream:
    """One stream. The task's thread reads it; another thread sends the server regular status messages.

    The server ends a connection without messages after `wal_sender_timeout`, and the task may wait for Kafka for
    longer. Only `confirm` changes the confirmed position.
    """

    def __init__(self, server: Server, slot: str, publication: str, start: int, *, messages: bool) -> None:
        """start: the position from which transactions are sent; messages: send logical messages. Raises
        `ConnectorError`, and `LostPosition` if the slot does not exist.
        """
        self._connection = server.connect(replication=True)
        self._pg = self._connection.pgconn
        self._confirmed = start
        self._lock = threading.Lock()
        self.server_end = start
        """The end of the server's log in its newest keepalive message."""
        self.reply_requested = False
        """Whether the server has requested a status. When it shuts down, it waits until `server_end` is confirmed."""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        name = '"' + publication.replace('"', '""') + '"'
        options = [
            "proto_version '1'",
            "publication_names '" + name.replace("'", "''") + "'",
            *(["messages 'true'"] if messages else []),
        ]
        command = f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(start)} ({", ".join(options)})'
        result = self._pg.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            error = (
                f"Replication from the slot {slot} cannot be started: {' '.join(result.get_error_message().split())}."
            )
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            self._connection.close()
            raise LostPosition(error) if state == _NO_SLOT else ConnectorError(error)
        self._thread = threading.Thread(target=self._stay, name="replication status", daemon=True)
        self._thread.start()

    def receive(self, take: Take, seconds: float) -> bool:
        """Pass messages to `take` until it returns True, or for half a second; wait at most `seconds` if there are
        none.

        Returns whether the stream is dry (has no more messages). Raises `RetriableError` if the stream has ended.
        """
        until = time.monotonic() + seconds
        while True:
            dry, any_taken = self._drain(take)
            if not dry:
                return False
            left = until - time.monotonic()
            if any_taken or left <= 0 or not select.select([self._pg.socket], [], [], left)[0]:
                return True

    def _drain(self, take: Take) -> tuple[bool, bool]:
        """Return whether the stream is dry, and whether there was a message."""
        pg = self._pg
        any_taken = False
        until = time.monotonic() + _LONGEST_SECONDS
        with self._lock:
            try:
                while True:
                    size, data = pg.get_copy_data(1)
                    if size < 0:
                        raise self._end_error()
                    if size == 0:
                        if not select.select([pg.socket], [], [], 0)[0]:
                            return True, any_taken
                        pg.consume_input()  # it may read only a part of what has arrived
                        if time.monotonic() > until:
                            return False, any_taken
                    elif data[0] == _DATA:
                        any_taken = True
                        if take(data):
                            return False, True
                    elif data[0] == _KEEPALIVE:
                        self._keepalive(data)
            except psycopg.OperationalError as error:
                raise RetriableError(f"The replication stream has ended: {one_line(error)}.") from error

    def _keepalive(self, data: memoryview) -> None:
        self.server_end = max(self.server_end, int.from_bytes(data[1:9], "big"))
        if data[17]:
            self.reply_requested = True
            self._send()

    def _end_error(self) -> ConnectorError:
        result = self._pg.get_result()
        words = " ".join(result.get_error_message().split()) if result is not None else "the server ended it"
        return RetriableError(f"The replication stream has ended: {words}.")

    def confirm(self, lsn: int) -> None:
        """Confirm that everything before this position is in Kafka: the server may remove its write-ahead log."""
        with self._lock:
            self._confirmed = max(self._confirmed, lsn)
            self._send()

    def request_position(self) -> None:
        """Request the server's position. `receive` sets `server_end` when the answer arrives."""
        with self._lock:
            try:
                self._send(answer=True)
            except psycopg.OperationalError as error:
                raise RetriableError(f"The replication stream has ended: {one_line(error)}.") from error

    def _send(self, *, answer: bool = False) -> None:
        now = int((time.time() - _EPOCH_S) * 1_000_000)
        lsn = self._confirmed
        self._pg.put_copy_data(_STATUS(b"r", lsn, lsn, lsn, now, answer))
        self._pg.flush()

    def _stay(self) -> None:
        while not self._closing.wait(_STATUS_SECONDS):
            with self._lock:
                if self._closing.is_set():
                    return
                try:
                    self._send()
                except psycopg.Error:
                    return  # the task's thread gets the same error, and reports it

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(10)
        self._connection.close()


_INSERT: Final = 73


class PendingSignal(NamedTuple):
    """A signal that was not carried out yet. record: its offset is set to the state after the signal."""

    record: SourceRecord
    kind: str
    data: str


class SignalTable:
    """Collects the signals in the stream."""

    def __init__(self, table: str, partition: dict[str, object]) -> None:
        """table: schema.table, from the setting."""
        self._table = table
        self._partition = partition
        self._columns: dict[int, list[str]] = {}
        self._pending: list[PendingSignal] = []

    @classmethod
    def of(cls, config: ParsedConfig, prefix: str) -> "SignalTable | None":
        """Return the signal table of a configuration, or None."""
        table = str(config[names.SIGNALS] or "").strip()
        return cls(table, incremental_partition(prefix)) if table else None

    def relate(self, relation: Relation) -> None:
        """Register a table's columns for the following changes, if it is the signal table."""
        if f"{relation.schema}.{relation.name}" == self._table:
            self._columns[relation.oid] = [column.name for column in relation.columns]

    def is_table(self, oid: int) -> bool:
        """Return whether this is the signal table."""
        return oid in self._columns

    def has(self, oid: int, message: bytes) -> bool:
        """Return whether a row's message is a signal."""
        return message[0] == _INSERT and oid in self._columns

    def add(self, message: bytes) -> SourceRecord:
        """Add a signal. Return the record that commits it."""
        columns = self._columns[int.from_bytes(message[1:5], "big")]
        values, _, _ = read_row(message, 6, [bytes] * len(columns))
        row = {name: value for name, value in zip(columns, values, strict=True) if isinstance(value, bytes)}
        record = OffsetRecord(self._partition, {})
        kind, data = (row.get(name, b"").decode() for name in ("type", "data"))
        self._pending.append(PendingSignal(record, kind, data))
        return record

    def take(self) -> list[PendingSignal]:
        """Return and remove the collected signals."""
        signals, self._pending = self._pending, []
        return signals


class TransactionReader:
    """Collects records until `take` returns True; then `hand_over` returns them."""

    def __init__(
        self,
        start: Position,
        origin: Origin,
        maker: RecordMaker,
        selection: Selection,
        describe: Describe,
        partition: dict[str, object],
        *,
        batch_size: int,
        contained: SnapshotContent | None = None,
        signals: SignalTable | None = None,
        json: JsonRecords | None = None,
    ) -> None:
        """contained: the changes that the snapshot's rows contain; signals: the signal table; json: makes records where
        it can.
        """
        self._run = OpenRun(json, batch_size)
        self._contained = contained
        self._window: Window | None = None
        self._signals = signals
        self._tables = KnownTables(selection, describe)
        self.delivered: set[int] | None = None
        """Ids of the transactions that the stream has delivered; None if they are not recorded."""
        self._origin = origin
        self._maker = maker
        self._selection = selection
        self._partition = partition
        self._batch_size = batch_size
        self._already_read = AlreadyRead(start)
        self._transaction: SourceTransaction | None = None
        self._begins_at = start_at(start.lsn, origin)
        self._before = "null"
        self.torn = False
        """Whether records of an unfinished transaction were returned: then its end needs a record, too."""
        self.records: list[SourceRecord] = []
        self.whole = 0
        """How many of the records belong to finished transactions."""
        self.end = start.lsn
        """The position after the last finished transaction, with or without records."""

    @property
    def inside(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._transaction is not None

    @property
    def leaves_out(self) -> bool:
        """Whether the stream may still reach changes that the initial snapshot contains."""
        return self._contained is not None

    def has_passed(self, lsn: int) -> bool:
        """Return whether everything committed before this position was read."""
        transaction = self._transaction
        return self.end >= lsn or (transaction is not None and transaction.begin.commit_lsn >= lsn)

    @property
    def xid(self) -> int:
        """The id of the current transaction; 0 between two."""
        return 0 if self._transaction is None else self._transaction.begin.xid

    @property
    def changes(self) -> int:
        """How many messages of the current transaction were read."""
        return 0 if self._transaction is None else self._transaction.changes

    @property
    def newest_us(self) -> int:
        """Commit time of the newest transaction that was read, microseconds since 1970; 0 if none was."""
        return self._last_time_us() if self._transaction is None else self._transaction.begin.time_us

    def take(self, message: bytes | memoryview) -> bool:
        """Process one message for `Stream.receive`. Return whether there are enough records."""
        run = self._run
        if run.write(message):
            return len(run.values) >= run.room
        content = bytes(message[HEADER:])
        if content[0] in _ROWS:
            self._row(position_of(message), content)
        elif (event := pgoutput.decode(content, self._tables.decoders)) is not None:
            self._end_run()
            self._other(position_of(message), event)
        return run.count(self.records) >= self._batch_size

    def hand_over(self) -> list[SourceRecord]:
        """Return the records so far, and remove them; the last one's offset is the position after exactly these."""
        self._end_run()
        records, whole = self.records, self.whole
        self.records, self.whole = [], 0
        self._run.reset()
        transaction = self._transaction
        if len(records) > whole and transaction is not None:
            records[-1].source_offset = within(transaction.offset, transaction.begin.xid, transaction.changes)
            self.torn = True
        return records

    def add(self, records: Sequence[SourceRecord]) -> None:
        """Add records of another source partition after the last transaction. Not within a transaction."""
        assert self._transaction is None
        self.records.extend(records)
        self.whole = len(self.records)

    def put_before(self, start: int, records: Sequence[SourceRecord], contained: Set[int]) -> None:
        """Insert records of another source partition between two transactions, before index `start`. Records after it
        whose `id` is in `contained` keep only their offset."""
        self.records[start:] = [*records, *leave_out(self.records[start:], contained)]
        self.whole += len(records)

    def open_window(self, window: Window | None) -> None:
        """Pass the changes of the window's table to the window; None closes it."""
        self._window = window
        if window is not None and (relation := self._tables.relations.get(window.oid)) is not None:
            window.relate(relation)

    def pass_position(self, lsn: int) -> None:
        """Note that everything committed before this position was read."""
        if self._contained is not None and lsn >= self._contained.until:
            self._contained = None
            logger.info("The stream has passed all changes that the snapshot contains, at %s", lsn_text(lsn))

    def restart(self) -> int:
        """Return the position to restart the stream from; what was read of a transaction is skipped."""
        self._end_run()
        if self._transaction is not None:
            self._already_read.restart(self._transaction.begin.xid, self._transaction.changes)
            self._transaction = None
        self._tables.clear()
        return self.end

    def _row(self, lsn: int, message: bytes) -> None:
        transaction = self._transaction
        assert transaction is not None
        oid = int.from_bytes(message[1:5], "big")
        table = self._tables.tables[oid]
        plain = table if self._is_plain(oid, transaction) else None
        if plain is not None and self._run.append(self.records, plain, message, lsn, transaction):
            return
        self._end_run()
        out = self._out(transaction, lsn)
        if self._signals is not None and out is self.records and self._signals.has(oid, message):
            # A stream's record follows it, since the last record of a transaction carries the position after it.
            out += [self._signals.add(message), OffsetRecord(self._partition, transaction.offset)]
        if table is not None:
            change, refused = decode_change(table, message, self._tables.decoders)
            if self._contained is not None:
                remainder = self._contained.remainder(change, message, transaction.begin.xid)
                if remainder is None:
                    return
                change = remainder
            before = len(out)
            if refused is None:
                self._maker.change(out, table, change, lsn, transaction)
            else:
                self._maker.refuse(out, table, refused, change.op, lsn, transaction)
            if self._window is not None and self._window.oid == oid:
                self._window.note(change, message, transaction.begin.xid, out[before:])

    def _is_plain(self, oid: int, transaction: SourceTransaction) -> bool:
        """Return whether each row of the table in this transaction becomes records, independent of its values."""
        if not self._run.possible or self._contained is not None or self._window is not None:
            return False
        is_signals = self._signals is not None and self._signals.is_table(oid)
        return not is_signals and not self._already_read.may_skip(transaction.begin.xid, transaction.changes)

    def _end_run(self) -> None:
        self._run.end(self.records, self._transaction)

    def _out(self, transaction: SourceTransaction, lsn: int) -> list[SourceRecord]:
        """Count a change, and return the list for its records: a discarded one if they were already delivered."""
        transaction.changes += 1
        again = self._already_read.skips(transaction.begin.xid, lsn, transaction.changes)
        return [] if again else self.records

    def _other(self, lsn: int, event: object) -> None:
        match event:
            case pgoutput.Begin():
                self.pass_position(event.commit_lsn)
                if self.delivered is not None:
                    self.delivered.add(event.xid)
                self._transaction = SourceTransaction(event, self._begins_at, self._before)
            case pgoutput.Commit():
                self._commit(event)
            case pgoutput.Relation():
                self._relation(event)
            case pgoutput.Truncate():
                self._truncate(lsn, event)
            case pgoutput.LogicalMessage():
                self._message(event)
            case _:
                raise ConnectorError(f"Unexpected message between two rows: {type(event).__name__}.")

    def _relation(self, relation: pgoutput.Relation) -> None:
        if self._signals is not None:
            self._signals.relate(relation)
        if not self._tables.relate(relation):
            return
        if self._contained is not None:
            self._contained.relate(relation)
        if self._window is not None and self._window.oid == relation.oid:
            self._window.relate(relation)

    def _truncate(self, lsn: int, event: pgoutput.Truncate) -> None:
        transaction = self._transaction
        assert transaction is not None
        out = self._out(transaction, lsn)
        for oid in event.relations:
            table = self._tables.tables[oid]
            if table is None:
                continue
            if self._window is not None and self._window.oid == oid:
                self._window.truncate()
            if self._contained is not None:
                skipped = self._maker.skips("t")
                forgotten = self._contained.truncate(oid, transaction.begin.xid, skipped=skipped)
                if forgotten is None:
                    continue
                out.extend(forgotten)
            self._maker.truncate(out, table, lsn, transaction)

    def _message(self, message: pgoutput.LogicalMessage) -> None:
        captured = message.prefix in self._selection.messages
        if message.transactional:
            transaction = self._transaction
            assert transaction is not None
            out = self._out(transaction, message.lsn)
            if captured:
                self._maker.message(out, message, transaction)
        elif captured:
            # It is outside of any transaction, so it counts as one itself. The stream continues after its first byte.
            begin = pgoutput.Begin(message.lsn, self._last_time_us(), 0)
            alone = SourceTransaction(begin, self._begins_at, self._before)
            self._maker.message(self.records, message, alone)
            self._finish(message.lsn + 1, 0, alone.begin.time_us)

    def _last_time_us(self) -> int:
        time = self._begins_at.get("ts_usec", 0)
        return time if isinstance(time, int) else 0

    def _commit(self, commit: pgoutput.Commit) -> None:
        transaction = self._transaction
        assert transaction is not None
        xid = transaction.begin.xid
        self._maker.end(self._out(transaction, commit.end_lsn), transaction)
        self._transaction = None
        self._before = f'"{commit.end_lsn}"'
        self._already_read.end(xid)
        self._finish(commit.end_lsn, xid, commit.time_us)

    def _finish(self, lsn: int, xid: int, time_us: int) -> None:
        """End a transaction: its last record carries the position after it."""
        self.end = lsn
        self._begins_at = between(lsn, self._origin, xid, time_us)
        if len(self.records) > self.whole:
            self.records[-1].source_offset = self._begins_at
        elif self.torn:
            self.records.append(OffsetRecord(self._partition, self._begins_at))
        self.whole = len(self.records)
        self.torn = False

    def heartbeat(self, lsn: int) -> SourceOffset:
        """Return the offset at a position of the server up to which no captured table has changed. Not if `torn`;
        within a transaction, not after `end`."""
        if lsn > self.end:
            assert self._transaction is None
            self.end = lsn
            self._begins_at = between(lsn, self._origin, 0, self._last_time_us())
        return self._begins_at


_ROWS: Final = frozenset(b"IUD")
