"""Makes the records of changes: Debezium's envelopes, keys, headers, tombstones, messages and transaction metadata."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ringfence.connectors.api import Schema, SchemaAndValue, SourceOffset, SourceRecord, Struct
from ringfence.connectors.api.schemas import STRING
from ringfence.connectors.builtin.postgres.pgoutput import Begin, Change, LogicalMessage
from ringfence.connectors.builtin.postgres.tables import (
    BLOCK,
    COLLECTION,
    HEARTBEAT,
    HEARTBEAT_KEY,
    MESSAGE,
    MESSAGE_CONTENT,
    MESSAGE_KEY,
    SOURCE,
    TRANSACTION,
    TRANSACTION_KEY,
    RefusedRow,
    Table,
    convert_row,
    unreadable,
)

CONNECTOR: Final = "postgresql"
VERSION: Final = "1.0.0"
Headers = Sequence[tuple[str, object]]


@dataclass(slots=True)
class SourceTransaction:
    """The source transaction that is being read.

    offset: the offset of its records, which is its start; before: the end of the previous transaction, as JSON for
    `sequence`; changes: the number of its messages that were read; orders: the number of events by table.
    """

    begin: Begin
    offset: SourceOffset
    before: str
    changes: int = 0
    events: int = 0
    snapshot: str = "false"
    orders: dict[str, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.begin.xid}:{self.begin.commit_lsn}"


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """The connector's settings of records."""

    prefix: str
    database: str
    partition: dict[str, object]
    tombstones: bool = True
    skipped: frozenset[str] = frozenset("t")
    metadata: bool = False
    context_headers: bool = True
    heartbeat_topic: str = "__debezium-heartbeat"


class RecordMaker:
    """Makes the records of one task."""

    def __init__(self, settings: RecordSettings) -> None:
        self._settings = settings
        self._partition = settings.partition
        self._headers: list[tuple[str, object]] = []
        if settings.context_headers:
            context = {
                "connectorLogicalName": settings.prefix,
                "taskId": "0",
                "connectorName": CONNECTOR,
                "runId": str(uuid.uuid4()),
            }
            self._headers = [
                (f"__debezium.context.{name}", SchemaAndValue(STRING, value)) for name, value in context.items()
            ]

    @property
    def partition(self) -> dict[str, object]:
        return self._partition

    @property
    def headers(self) -> Headers:
        """The headers of each change's records."""
        return self._headers

    @property
    def tombstones(self) -> bool:
        """Whether a tombstone follows each delete."""
        return self._settings.tombstones

    @property
    def counts(self) -> bool:
        """Whether records contain their number in the transaction (`provide.transaction.metadata`)."""
        return self._settings.metadata

    def skips(self, op: str) -> bool:
        """Return whether an operation has no records."""
        return op in self._settings.skipped

    def change(
        self, out: list[SourceRecord], table: Table, change: Change, lsn: int, transaction: SourceTransaction
    ) -> None:
        """Append the records of one change: one, with a tombstone two, and up to three if the key has changed."""
        op = change.op
        if op in self._settings.skipped:
            return
        after = None if change.after is None else table.row(change.after, torn=change.torn)
        before = None
        if change.before is not None:
            before = table.key_row(change.before) if change.key_only else table.row(change.before)
        if op == "u" and before is not None:
            old_key, new_key = table.key(before), table.key(after) if after is not None else None
            if old_key is not None and new_key is not None and old_key != new_key:
                self._move(out, table, (before, after), (old_key, new_key), lsn, transaction)
                return
            if change.key_only:
                before = None  # the replica identity is an index other than the key: the old row is unknown
        row = after if after is not None else before
        key = None if row is None else table.key(row)
        self._envelope(out, table, op, before, after, key, lsn, transaction, self._headers)
        if op == "d":
            self._tombstone(out, table, key, transaction, self._headers)

    def _move(
        self,
        out: list[SourceRecord],
        table: Table,
        rows: tuple[Struct, Struct | None],
        keys: tuple[Struct, Struct],
        lsn: int,
        transaction: SourceTransaction,
    ) -> None:
        """Append a delete under the old key and a create under the new key, for a row whose key has changed."""
        (before, after), (old_key, new_key) = rows, keys
        to_new = [("__debezium.newkey", SchemaAndValue(table.key_schema, new_key)), *self._headers]
        to_old = [("__debezium.oldkey", SchemaAndValue(table.key_schema, old_key)), *self._headers]
        self._envelope(out, table, "d", before, None, old_key, lsn, transaction, to_new)
        self._tombstone(out, table, old_key, transaction, to_new)
        self._envelope(out, table, "c", None, after, new_key, lsn, transaction, to_old)

    def read(
        self, out: list[SourceRecord], table: Table, raw: Sequence[bytes | None], lsn: int, at: SourceTransaction
    ) -> None:
        """Append the record of a row that was read from its table, in PostgreSQL's text format."""
        if "r" not in self._settings.skipped:
            try:
                values = convert_row(table, raw)
            except RefusedRow as refused:
                self.refuse(out, table, refused, "r", lsn, at)
                return
            row = table.row(values)
            self._envelope(out, table, "r", None, row, table.key(row), lsn, at, self._headers)

    def refuse(
        self, out: list[SourceRecord], table: Table, refused: RefusedRow, op: str, lsn: int, at: SourceTransaction
    ) -> None:
        """Append an `UnreadableRecord` for a row that cannot be converted."""
        if op not in self._settings.skipped:
            out.append(unreadable(table, refused, self._partition, at.offset, lsn))

    def truncate(self, out: list[SourceRecord], table: Table, lsn: int, transaction: SourceTransaction) -> None:
        """Append the record of a TRUNCATE of a table."""
        if "t" not in self._settings.skipped:
            self._envelope(out, table, "t", None, None, None, lsn, transaction, self._headers)

    def _envelope(
        self,
        out: list[SourceRecord],
        table: Table,
        op: str,
        before: Struct | None,
        after: Struct | None,
        key: Struct | None,
        lsn: int,
        transaction: SourceTransaction,
        headers: Headers,
    ) -> None:
        block = self._block(out, f"{table.schema_name}.{table.name}", transaction) if self._settings.metadata else None
        now = time.time_ns()
        source = self.source(table.schema_name, table.name, lsn, transaction)
        values: list[object] = [before, after, source, block, op, now // 1_000_000, now // 1000, now]
        self._add(out, table.topic, Struct.of(table.envelope, values), table.envelope, key, transaction, headers)

    def source(self, schema: str, table: str, lsn: int, transaction: SourceTransaction) -> Struct:
        """Return the source block of a change."""
        settings, begin = self._settings, transaction.begin
        us = begin.time_us
        sequence = f'[{transaction.before},"{lsn}"]'
        values = [
            VERSION,
            CONNECTOR,
            settings.prefix,
            us // 1000,
            transaction.snapshot,
            settings.database,
            sequence,
            us,
            us * 1000,
        ]
        return Struct.of(SOURCE, [*values, schema, table, begin.xid or None, lsn, None, None, None])

    def _add(
        self,
        out: list[SourceRecord],
        topic: str,
        value: Struct | None,
        schema: Schema | None,
        key: Struct | None,
        transaction: SourceTransaction,
        headers: Headers,
    ) -> None:
        # Positional arguments: keywords take a fifth longer.
        key_schema = None if key is None else key.schema
        offset = transaction.offset
        out.append(SourceRecord(self._partition, offset, topic, value, key, headers, None, None, key_schema, schema))

    def _tombstone(
        self,
        out: list[SourceRecord],
        table: Table,
        key: Struct | None,
        transaction: SourceTransaction,
        headers: Headers,
    ) -> None:
        if self._settings.tombstones:
            self._add(out, table.topic, None, None, key, transaction, headers)

    def message(self, out: list[SourceRecord], message: LogicalMessage, transaction: SourceTransaction) -> None:
        """Append the record of a logical decoding message."""
        if "m" in self._settings.skipped:
            return
        block = None
        if self._settings.metadata and message.transactional:
            block = self._block(out, "", transaction)
        source = self.source("", "", message.lsn, transaction)
        content = Struct.of(MESSAGE_CONTENT, [message.prefix, message.content])
        value = Struct.of(MESSAGE, ["m", time.time_ns() // 1_000_000, source, block, content])
        key = Struct.of(MESSAGE_KEY, [message.prefix])
        self._add(out, f"{self._settings.prefix}.message", value, MESSAGE, key, transaction, ())

    def _block(self, out: list[SourceRecord], collection: str, transaction: SourceTransaction) -> Struct:
        if not transaction.events:
            self._metadata(out, ["BEGIN", transaction.id, None, None, transaction.begin.time_us // 1000], transaction)
        transaction.events += 1
        order = transaction.orders[collection] = transaction.orders.get(collection, 0) + 1
        return Struct.of(BLOCK, [transaction.id, transaction.events, order])

    def _metadata(self, out: list[SourceRecord], values: list[object], transaction: SourceTransaction) -> None:
        key = Struct.of(TRANSACTION_KEY, [transaction.id])
        topic = f"{self._settings.prefix}.transaction"
        self._add(out, topic, Struct.of(TRANSACTION, values), TRANSACTION, key, transaction, ())

    def end(self, out: list[SourceRecord], transaction: SourceTransaction) -> None:
        """Append the END record of a transaction (`provide.transaction.metadata`)."""
        if not transaction.events:
            return
        counts = [Struct.of(COLLECTION, [name, count]) for name, count in transaction.orders.items()]
        values = ["END", transaction.id, transaction.events, counts, transaction.begin.time_us // 1000]
        self._metadata(out, values, transaction)

    def heartbeat(self, offset: SourceOffset) -> SourceRecord:
        """Return a heartbeat record, which carries an offset while there are no changes."""
        settings = self._settings
        key = Struct.of(HEARTBEAT_KEY, [settings.prefix])
        value = Struct.of(HEARTBEAT, [time.time_ns() // 1_000_000])
        topic = f"{settings.heartbeat_topic}.{settings.prefix}"
        return SourceRecord(self._partition, offset, topic, value, key, (), None, None, HEARTBEAT_KEY, HEARTBEAT)
