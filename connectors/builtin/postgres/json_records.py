"""Makes the bytes that `JsonConverter` would make of changes, directly from the stream's messages.

This avoids a value for each column, structs for row, envelope and key, and a dictionary of each: two thirds of the
work. It covers the common cases only. The others (a missing TOAST value, a changed key, a null in a required column)
go through `RecordMaker` and the converters.
"""

import time
from typing import Final

from ringfence.connectors.api import ConnectorError, Converters, RetriableError, Schema, SchemaType
from ringfence.connectors.builtin.postgres import types
from ringfence.connectors.builtin.postgres.column_types import Read
from ringfence.connectors.builtin.postgres.envelope_schemas import SOURCE
from ringfence.connectors.builtin.postgres.json_runs import ABSENT, READ, JsonRun, TableBytes
from ringfence.connectors.builtin.postgres.message_functions import message_function
from ringfence.connectors.builtin.postgres.records import RecordMaker, SourceTransaction
from ringfence.connectors.builtin.postgres.row_functions import (
    Form,
    Write,
    WrittenColumn,
    row_function,
    values_function,
)
from ringfence.connectors.builtin.postgres.tables import Table, has_null, has_required_elements
from ringfence.connectors.converters.base import HeaderConverter
from ringfence.connectors.converters.json_converter import JsonConverter, dumps

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
