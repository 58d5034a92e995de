"""Makes the bytes that `JsonConverter` would make of changes, directly from the stream's messages.

This avoids a value for each column, structs for row, envelope and key, and a dictionary of each: two thirds of the
work. It covers the common cases only. The others (a missing TOAST value, a changed key, a null in a required column)
go through `RecordMaker` and the converters. Consecutive rows of one table in one source transaction are one `JsonRun`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ringfence.connectors.api import (
    ConnectorError,
    Converters,
    RetriableError,
    Schema,
    SchemaType,
    SerializedRecords,
    SourceOffset,
    SourcePartition,
    SourceRecord,
)
from ringfence.connectors.builtin.postgres import types
from ringfence.connectors.builtin.postgres.json_functions import (
    Form,
    MessageFunction,
    RowFunction,
    ValuesFunction,
    Write,
    WrittenColumn,
    message_function,
    row_function,
    values_function,
)
from ringfence.connectors.builtin.postgres.records import RecordMaker, SourceTransaction
from ringfence.connectors.builtin.postgres.tables import SOURCE, Table, has_null, has_required_elements
from ringfence.connectors.builtin.postgres.types import Read
from ringfence.connectors.converters.base import HeaderConverter
from ringfence.connectors.converters.json_converter import JsonConverter, dumps

WriteMessage = Callable[[bytes | memoryview], bool | None]
Place = tuple[SourcePartition, SourceOffset, str]
"""Source partition, source offset and topic of the records."""

READ: Final = b"r"
_DELETE: Final = 68
_KEY, _NEW, _OLD = b"KNO"
_ROW: Final = 8
"""The start of the first row's columns, after kind (1), relation (4), mark (1) and count of columns (2)."""
_MARK: Final = 3
"""The bytes between the two rows of an update: mark (1) and count of columns (2)."""
ABSENT: Final = b"null"


class TableBytes(NamedTuple):
    """The functions and bytes that turn the rows of a table into JSON.

    owner: its creator; shape: the envelope's schema; message: for whole messages, None if inserts and updates have no
    records; key_row: for rows that contain the replica identity only; begin, end: the bytes before the old row, and
    after everything; key: the bytes before and after a key's columns; headers: of each record.
    """

    owner: object
    shape: Schema
    message: MessageFunction | None
    row: RowFunction
    key_row: RowFunction
    values: ValuesFunction
    begin: bytes
    end: bytes
    key: tuple[bytes, bytes]
    headers: list[tuple[str, bytes | None]]

    def rows(self, message: bytes) -> tuple[bytes, bytes, bytes | None, int] | None:
        """Return the JSON of a message's old and new row, the key, and the end of the message's rows.

        None if the row must be decoded: a value is missing, or the key has changed.
        """
        mark = message[5]
        if mark == _NEW:
            row = self.row(message, _ROW)
            return None if row is None else (ABSENT, *row)
        if message[0] == _DELETE:
            row = (self.key_row if mark == _KEY else self.row)(message, _ROW)
            return None if row is None else (row[0], ABSENT, *row[1:])
        if mark != _OLD or (old := self.row(message, _ROW)) is None:
            return None
        new = self.row(message, old[2] + _MARK)
        return None if new is None or new[1] != old[1] else (old[0], *new)


class JsonRun:
    """Consecutive rows of one table in one source transaction, with their `records`.

    write(message): appends the record of an XLogData message, passed with its header, and returns True. If it cannot,
    it appends nothing; `append` supports more kinds of messages.
    """

    __slots__ = ("_keys", "_source", "_table_bytes", "_tails", "_tombstones", "records", "values", "write")

    def __init__(
        self,
        where: Place,
        table_bytes: TableBytes,
        source: tuple[bytes, bytes],
        tails: Mapping[bytes, bytes],
        *,
        tombstones: bool,
    ) -> None:
        """source: the source block before its first position, and between the two; tails: what follows the second one,
        by the kind of message, `READ` for rows that were read from the table.
        """
        self.values: list[bytes | None] = []
        self._keys: list[bytes | None] = []
        self.records = SerializedRecords(*where, self.values, self._keys, table_bytes.headers)
        self._table_bytes = table_bytes
        self._source = source
        self._tails = tails
        self._tombstones = tombstones
        self.write: WriteMessage = (
            write_nothing
            if table_bytes.message is None
            else partial(table_bytes.message, self.values.append, self._keys.append, tails, *source)
        )

    def end(self, records: list[SourceRecord]) -> None:
        """Add the rows to `records` as one item."""
        if self.values:
            records.append(self.records)

    def append(self, message: bytes, lsn: int) -> bool:
        """Append the records of a row's message. Return False, with nothing appended, if it must be decoded."""
        tail = self._tails.get(message[:1])
        rows = None if tail is None else self._table_bytes.rows(message)
        if tail is None or rows is None:
            return False
        before, after, key, _ = rows
        self._append(before, after, key, lsn, tail)
        if after is ABSENT and self._tombstones:
            self.values.append(None)
            self._keys.append(self._keys[-1])
        return True

    def append_read(self, values: Sequence[bytes | None], lsn: int) -> bool:
        """Append the record of a row that was read from its table. Return False as `append` does."""
        tail = self._tails.get(READ)
        row = None if tail is None else self._table_bytes.values(values)
        if tail is None or row is None:
            return False
        self._append(ABSENT, *row, lsn, tail)
        return True

    def _append(self, before: bytes, after: bytes, key: bytes | None, lsn: int, tail: bytes) -> None:
        table_bytes, source, at = self._table_bytes, self._source, b"%d" % lsn
        around = table_bytes.key
        rows = table_bytes.begin, before, after
        self.values.append(b'%b%b,"after":%b%b%b%b%b%b' % (*rows, source[0], at, source[1], at, tail))
        self._keys.append(None if key is None else around[0] + key + around[1])


def write_nothing(_: object) -> bool:
    """Append nothing: replaces `JsonRun.write` if there is no function for messages."""
    return False


_OPERATIONS: Final = {b"I": b"c", b"U": b"u", b"D": b"d", READ: b"r"}
_LSN: Final = 7_777_777_777_777_777_777
"""The placeholder for a change's position when a source block is encoded."""


class JsonRecords:
    """Makes the records of one task as JSON. `find_json_records` creates it."""

    def __init__(self, value: JsonConverter, key: JsonConverter, headers: HeaderConverter, maker: RecordMaker) -> None:
        self._value = value
        self._key = key
        self._headers = headers
        self._maker = maker
        self._partition = maker.partition
        self._kinds = {kind: op for kind, op in _OPERATIONS.items() if not maker.skips(op.decode())}
        self._encode_source = value.encoders.fields(SOURCE)
        self._transaction: SourceTransaction | None = None
        self._sources: dict[Table, tuple[bytes, bytes, bytes] | None] = {}
        """The source blocks of the transaction, split at the two occurrences of the position."""

    def begin_run(self, table: Table, transaction: SourceTransaction) -> JsonRun | None:
        """Return a run for consecutive rows of the table in this transaction, or None if they must be decoded.

        The records' time of processing is the time of this call.
        """
        if transaction is not self._transaction:
            self._transaction = transaction
            self._sources.clear()
        source = self._sources.get(table) or self._source(table, transaction)
        if source is None:
            return None
        table_bytes = self._of(table)
        now = b"%d" % time.time_ns()
        times = b'","ts_ms":%b,"ts_us":%b,"ts_ns":%b}%b' % (now[:-6], now[:-3], now, table_bytes.end)
        tails = {kind: source[2] + op + times for kind, op in self._kinds.items()}
        where = self._partition, transaction.offset, table.topic
        return JsonRun(where, table_bytes, source[:2], tails, tombstones=self._maker.tombstones)

    def _of(self, table: Table) -> TableBytes:
        cached = table.json
        if isinstance(cached, TableBytes) and cached.owner is self and cached.shape is table.envelope:
            return cached
        begin, end = self._value.wrapping(table.envelope)
        begin += b'{"before":'
        around = (b"", b"") if table.key_schema is None else self._key.wrapping(table.key_schema)
        columns, key = self._columns(table, identity_only=False)
        kinds = b"".join(self._kinds.keys() & {b"I", b"U"})
        head = begin + ABSENT + b',"after":'
        table.json = table_bytes = TableBytes(
            self,
            table.envelope,
            message_function(table.oid, columns, key, operations=kinds, head=head, around_key=around)
            if kinds
            else None,
            row_function(columns, key),
            row_function(*self._columns(table, identity_only=True)),
            values_function(columns, key),
            begin,
            end,
            around,
            self._headers.from_headers(table.topic, self._maker.headers),
        )
        return table_bytes

    def _columns(self, table: Table, *, identity_only: bool) -> tuple[list[WrittenColumn], list[int]]:
        """Return the columns of the relation, and the places of the key's columns."""
        places = range(len(table.readers)) if table.places is None else table.places
        columns = [WrittenColumn(None)] * len(table.readers)
        for place, field, filler in zip(places, table.row_schema.fields, table.fillers, strict=True):
            schema = field.schema
            null = self._null(schema, filler if identity_only else None)
            write, form = self._writer(schema, table.readers[place])
            columns[place] = WrittenColumn(dumps(field.name), write, null, form)
        return columns, [places[place] for place in table.key_places]

    def _null(self, schema: Schema, filler: object) -> bytes | None:
        if filler is None and (schema.optional or schema.default is not None):
            try:
                return dumps(self._value.encoders.null(schema))
            except ConnectorError:
                return None  # `replace.null.with.default=false`: the converter raises the error
        encode = self._value.encoders.present(schema)
        return None if filler is None else dumps(filler if encode is None else encode(filler))

    def _writer(self, schema: Schema, read: Read) -> tuple[Write | None, Form]:
        if read is int and schema.type in _WHOLE:
            return None, Form.OTHER
        if read is types.read_text and schema.type is SchemaType.STRING:
            return _quote, Form.TEXT
        if read is types.read_bool:
            return _BOOLEANS.get, Form.OTHER
        encode = self._value.encoders.present(schema)
        complete = has_required_elements(schema)

        def write(raw: bytes) -> bytes | None:
            try:
                value = read(raw)
                if value is None or (complete and has_null(value)):
                    return None  # the row is decoded, which changes the schema
                return dumps(value if encode is None else encode(value))
            except RetriableError:
                raise
            except Exception:  # noqa: BLE001 - the row is decoded: that raises it again, with the row and the column
                return None

        if schema.name == types.ZONED_TIMESTAMP.name:
            return _zoned_timestamp(write), Form.MOMENT
        is_double = read is float and schema.type is SchemaType.FLOAT64
        return write, Form.FLOAT64 if is_double else Form.OTHER

    def _source(self, table: Table, transaction: SourceTransaction) -> tuple[bytes, bytes, bytes] | None:
        """Return the parts of the source block, or None if it contains the placeholder elsewhere."""
        values = self._maker.source(table.schema_name, table.name, _LSN, transaction).values
        parts = dumps(self._encode_source(list(values))).split(b"%d" % _LSN)
        if len(parts) != len(("sequence", "lsn")) + 1:
            return None
        source = self._sources[table] = b',"source":' + parts[0], parts[1], parts[2] + b',"transaction":null,"op":"'
        return source


def find_json_records(converters: Converters | None, maker: RecordMaker) -> JsonRecords | None:
    """Return `JsonRecords` if keys and values are converted by a `JsonConverter` with the same settings.

    None for other converters, and if the records of a transaction are counted (`provide.transaction.metadata`).
    """
    if converters is None or maker.counts or not isinstance(converters.headers, HeaderConverter):
        return None
    key, value = converters.key, converters.value
    if type(key) is not JsonConverter or type(value) is not JsonConverter:
        return None
    if key.encoders.settings != value.encoders.settings:
        return None
    return JsonRecords(value, key, converters.headers, maker)


def _quote(raw: bytes) -> bytes | None:
    try:
        return dumps(raw.decode())
    except UnicodeDecodeError:
        return None  # the row is decoded, which refuses it


def _zoned_timestamp(write: Write) -> Write:
    """Return a function that does the same, but is faster for `2026-01-31 12:34:56.123456+00`."""

    def write_quickly(raw: bytes) -> bytes | None:
        if len(raw) == _FULL_MOMENT and raw[4] == _DASH:
            return b'"%bT%bZ"' % (raw[:10], raw[11:26])
        return write(raw)

    return write_quickly


_FULL_MOMENT: Final = 29
_DASH: Final = 45
_WHOLE: Final = frozenset({SchemaType.INT16, SchemaType.INT32, SchemaType.INT64})
_BOOLEANS: Final = {b"t": b"true", b"f": b"false"}


class OpenRun:
    """Manages the open run, at most one. It ends at the first message that is not a row of its table.

    write(message): see `JsonRun`; returns False if no run is open. values: one for each record of the open run. room:
    the maximum number of values.
    """

    __slots__ = ("_batch_size", "_counted_values", "_json", "_more", "_run", "_table", "room", "values", "write")

    def __init__(self, json: JsonRecords | None, batch_size: int) -> None:
        self._json = json
        self._batch_size = batch_size
        self._run: JsonRun | None = None
        self._table: Table | None = None
        self._counted_values = 0
        self._more = 0
        """The records of the ended runs minus the number of these runs, since `reset`."""
        self.values: list[bytes | None] = []
        self.room = 0
        self.write: WriteMessage = write_nothing

    @property
    def possible(self) -> bool:
        """Whether rows can become JSON directly."""
        return self._json is not None

    def count(self, records: list[SourceRecord]) -> int:
        """Return the number of records, including those of the ended runs in `records` and of the open run."""
        return len(records) + self._more + len(self.values)

    def append(
        self, records: list[SourceRecord], table: Table, message: bytes, lsn: int, transaction: SourceTransaction
    ) -> bool:
        """Append a row's message to the open run, or to a new one if the table has changed: then the open run ends and
        goes to `records`. Return False if the row must be decoded.
        """
        assert self._json is not None
        if self._table is not table or self._run is None:
            self.end(records, transaction)
            self._run = self._json.begin_run(table, transaction)
            if self._run is None:
                return False
            self._table, self.write, self.values = table, self._run.write, self._run.values
            self.room = self._batch_size - len(records) - self._more
        self._note(transaction)
        if not self._run.append(message, lsn):
            return False
        transaction.changes += 1
        self._counted_values = len(self.values)
        return True

    def _note(self, transaction: SourceTransaction | None) -> None:
        """Count the records that `write` has appended as changes of the transaction."""
        count = len(self.values) - self._counted_values
        if count:
            assert transaction is not None
            transaction.changes += count
            self._counted_values += count

    def end(self, records: list[SourceRecord], transaction: SourceTransaction | None) -> None:
        """End the open run, and add it to `records`."""
        if self._run is None:
            return
        self._note(transaction)
        self._run.end(records)
        self._more += max(0, len(self.values) - 1)
        self._run = self._table = None
        self._counted_values = 0
        self.write, self.values = write_nothing, []

    def reset(self) -> None:
        """Count from zero again, after the records were returned from `poll`."""
        self._more = 0
