"""Records of changes with the bytes that `JsonConverter` would make of them, straight from the stream's messages.

Between a row's text and its JSON there need not be a value for each column, structs for row, envelope and key, and a
dictionary of each: that is two thirds of the work. Only the plain cases are here. All others (a TOAST value that is
missing, a key that changes, a null that must not be) take the long way through `RecordMaker` and the converters.
"""

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError, Converters, Schema, SchemaType, SerializedRecord, SourceRecord
from ringfence.connectors.builtin.postgres import types
from ringfence.connectors.builtin.postgres.column_types import Read
from ringfence.connectors.builtin.postgres.envelope_schemas import SOURCE
from ringfence.connectors.builtin.postgres.records import RecordMaker, SourceTransaction
from ringfence.connectors.builtin.postgres.row_functions import (
    RowFunction,
    ValuesFunction,
    Write,
    WrittenColumn,
    row_function,
    values_function,
)
from ringfence.connectors.builtin.postgres.tables import Table
from ringfence.connectors.converters.base import HeaderConverter
from ringfence.connectors.converters.json_converter import JsonConverter, dumps

_INSERT, _UPDATE, _DELETE = b"IUD"
_OPERATIONS: Final = {_INSERT: b"c", _UPDATE: b"u", _DELETE: b"d"}
_KEY, _NEW, _OLD = b"KNO"
_ROW: Final = 8
"""Where the first row's columns begin: kind (1), relation (4), mark (1), count of columns (2)."""
_MARK: Final = 3
"""Between the rows of an update: mark (1) and count of columns (2)."""
_LSN: Final = 7_777_777_777_777_777_777
"""Stands for a change's position while a source block is made."""
_ABSENT: Final = b"null"
_FULL_MOMENT: Final = 29
_DASH: Final = 45


class _TableBytes(NamedTuple):
    """Of one table in one form. `owner`: who made it; `shape`: the envelope's schema that it is for.

    key_row: of rows of which only the replica identity is known; begin, end: what stands before the old row, and behind
    everything; key: what stands around a key.
    """

    owner: "JsonRecords"
    shape: Schema
    row: RowFunction
    key_row: RowFunction
    values: ValuesFunction
    begin: bytes
    end: bytes
    key: tuple[bytes, bytes]
    headers: list[tuple[str, bytes | None]]

    def old_and_new(self, message: bytes) -> tuple[bytes, bytes, bytes | None, int] | None:
        """JSON of both rows of a message that has an old one, and the key; where it ends. None for the long way."""
        mark = message[5]
        if message[0] == _DELETE:
            found = (self.key_row if mark == _KEY else self.row)(message, _ROW)
            return None if found is None else (found[0], _ABSENT, *found[1:])
        if mark != _OLD or (old := self.row(message, _ROW)) is None:
            return None
        new = self.row(message, old[2] + _MARK)
        return None if new is None or new[1] != old[1] else (old[0], *new)


class JsonRecords:
    """Of one task: see `find_json_records`."""

    def __init__(self, value: JsonConverter, key: JsonConverter, headers: HeaderConverter, maker: RecordMaker) -> None:
        self._value = value
        self._key = key
        self._headers = headers
        self._maker = maker
        self._partition = maker.partition
        self._wanted = {kind: op for kind, op in _OPERATIONS.items() if not maker.skips(op.decode())}
        self._reads = not maker.skips("r")
        self._encode_source = value.encoders.fields(SOURCE)
        self._transaction: SourceTransaction | None = None
        self._sources: dict[Table, tuple[bytes, bytes, bytes] | None] = {}
        """The source blocks of the transaction, split where the change's position stands."""

    def append(
        self, out: list[SourceRecord], table: Table, message: bytes, lsn: int, transaction: SourceTransaction
    ) -> bool:
        """Append the records of a row's message. False, with nothing appended, for what must go the long way."""
        op = self._wanted.get(message[0])
        if op is None:
            return False
        made = self._of(table)
        # Most messages are inserts and updates of which only the new row is sent.
        found = made.row(message, _ROW) if message[5] == _NEW else None
        rows = (_ABSENT, *found) if found is not None else made.old_and_new(message)
        if rows is None:
            return False
        before, after, key, _ = rows
        return self._append(out, table, made, op, (before, after, key), lsn, transaction)

    def append_read(
        self,
        out: list[SourceRecord],
        table: Table,
        values: Sequence[bytes | None],
        lsn: int,
        transaction: SourceTransaction,
    ) -> bool:
        """The same for a row that was read from its table."""
        made = self._of(table)
        found = made.values(values) if self._reads else None
        return found is not None and self._append(out, table, made, b"r", (_ABSENT, *found), lsn, transaction)

    def _append(
        self,
        out: list[SourceRecord],
        table: Table,
        made: _TableBytes,
        op: bytes,
        rows: tuple[bytes, bytes, bytes | None],
        lsn: int,
        transaction: SourceTransaction,
    ) -> bool:
        if transaction is not self._transaction:
            self._transaction = transaction
            self._sources.clear()
        source = self._sources.get(table) or self._source(table, transaction)
        if source is None:
            return False
        before, after, key = rows
        now = b"%d" % time.time_ns()
        at = b"%d" % lsn
        value = b'%b%b,"after":%b%b%b%b%b%b"%b","ts_ms":%b,"ts_us":%b,"ts_ns":%b}%b' % (
            made.begin,
            before,
            after,
            *(source[0], at, source[1], at, source[2], op),
            *(now[:-6], now[:-3], now),
            made.end,
        )
        if key is not None:
            key = made.key[0] + key + made.key[1]
        offset, partition = transaction.offset, self._partition
        out.append(SerializedRecord(partition, offset, table.topic, value, key, made.headers))
        if after is _ABSENT and self._maker.tombstones:
            out.append(SerializedRecord(partition, offset, table.topic, None, key, made.headers))
        return True

    def _of(self, table: Table) -> _TableBytes:
        known = table.json
        if isinstance(known, _TableBytes) and known.owner is self and known.shape is table.envelope:
            return known
        begin, end = self._value.wrapping(table.envelope)
        table.json = made = _TableBytes(
            self,
            table.envelope,
            row_function(*self._columns(table, identity_only=False)),
            row_function(*self._columns(table, identity_only=True)),
            values_function(*self._columns(table, identity_only=False)),
            begin + b'{"before":',
            end,
            (b"", b"") if table.key_schema is None else self._key.wrapping(table.key_schema),
            self._headers.from_headers(table.topic, self._maker.headers),
        )
        return made

    def _columns(self, table: Table, *, identity_only: bool) -> tuple[list[WrittenColumn], list[int]]:
        """With the places of the key's."""
        kept = range(len(table.readers)) if table.kept is None else table.kept
        columns = [WrittenColumn(None)] * len(table.readers)
        for place, field, zero in zip(kept, table.row_schema.fields, table.zeros, strict=True):
            schema = field.schema
            null = self._null(schema, zero if identity_only else None)
            columns[place] = WrittenColumn(dumps(field.name), self._writer(schema, table.readers[place]), null)
        return columns, [kept[place] for place in table.key_places]

    def _null(self, schema: Schema, zero: object) -> bytes | None:
        if schema.optional or schema.default is not None:
            try:
                return dumps(self._value.encoders.null(schema))
            except ConnectorError:
                return None  # `replace.null.with.default=false`; the long way says so
        encode = self._value.encoders.present(schema)
        return None if zero is None else dumps(zero if encode is None else encode(zero))

    def _writer(self, schema: Schema, read: Read) -> Write | None:
        if read is int and schema.type in _WHOLE:
            return None
        if read is types.read_text and schema.type is SchemaType.STRING:
            return _quote
        if read is types.read_bool:
            return _BOOLEANS.get
        encode = self._value.encoders.present(schema)

        def write(raw: bytes) -> bytes | None:
            value = read(raw)
            return None if value is None else dumps(value if encode is None else encode(value))

        return _zoned_timestamp(write) if schema.name == types.ZONED_TIMESTAMP.name else write

    def _source(self, table: Table, transaction: SourceTransaction) -> tuple[bytes, bytes, bytes] | None:
        """None where the block has something in it that looks like the position."""
        values = self._maker.source(table.schema_name, table.name, _LSN, transaction).values
        parts = dumps(self._encode_source(list(values))).split(b"%d" % _LSN)
        if len(parts) != len(("sequence", "lsn")) + 1:
            return None
        made = self._sources[table] = b',"source":' + parts[0], parts[1], parts[2] + b',"transaction":null,"op":'
        return made


def find_json_records(converters: Converters | None, maker: RecordMaker) -> JsonRecords | None:
    """For keys and values that the same kind of `JsonConverter` makes; None for others, and where the records of a
    transaction are counted (`provide.transaction.metadata`).
    """
    if converters is None or maker.counts or not isinstance(converters.headers, HeaderConverter):
        return None
    key, value = converters.key, converters.value
    if type(key) is not JsonConverter or type(value) is not JsonConverter:
        return None
    if key.encoders.settings != value.encoders.settings:
        return None
    return JsonRecords(value, key, converters.headers, maker)


def _quote(raw: bytes) -> bytes:
    return dumps(raw.decode())


def _zoned_timestamp(write: Write) -> Write:
    """The same, sooner, for `2026-01-31 12:34:56.123456+00`, which is what most of them look like."""

    def write_quickly(raw: bytes) -> bytes | None:
        if len(raw) == _FULL_MOMENT and raw[4] == _DASH:
            return b'"%bT%bZ"' % (raw[:10], raw[11:26])
        return write(raw)

    return write_quickly


_WHOLE: Final = frozenset({SchemaType.INT16, SchemaType.INT32, SchemaType.INT64})
_BOOLEANS: Final = {b"t": b"true", b"f": b"false"}
