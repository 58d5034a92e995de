"""Makes the bytes that `JsonConverter` would make of changes, directly from the stream's messages.

This avoids a value for each column, structs for row, envelope and key, and a dictionary of each: two thirds of the
work. It covers the common cases only. The others (a missing TOAST value, a changed key, a null in a required column)
go through `RecordMaker` and the converters. Consecutive rows of one table in one source transaction are one `JsonRun`.

The functions that turn rows from pgoutput's text, or whole messages, into JSON are generated for each table: a loop
over the columns takes longer than the JSON itself (`connectors.converters.json_converter`). The generated code
contains only numbers of columns; names and values are passed as objects.

Most messages are inserts, or updates without an old row, and contain all values, all of them short. Text values contain
no NUL bytes, so in these messages only the lengths do, and one regular expression can split a message. It also
separates values that are valid JSON from those that must be encoded. All other messages are read row by row.

A value and the bytes behind it are an atomic group: only one end of the value fits, so nothing else need be tried.
Without this, a null behind n values would be noticed after 2**n attempts.
"""

import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

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
from ringfence.connectors.builtin.postgres.records import RecordMaker, SourceTransaction
from ringfence.connectors.builtin.postgres.tables import SOURCE, Table, has_null, has_required_elements
from ringfence.connectors.builtin.postgres.types import Read
from ringfence.connectors.converters.base import HeaderConverter
from ringfence.connectors.converters.json_converter import JsonConverter, dumps

Write = Callable[[bytes], bytes | None]
RowFunction = Callable[[bytes, int], tuple[bytes, bytes | None, int] | None]
"""`(message, start) -> (row, key, end)`: JSON of the row whose columns begin at `start`, JSON of its key (None for a
table without one), and the row's end. None if a value is missing, or null in a required column."""
ValuesFunction = Callable[[Sequence[bytes | None]], tuple[bytes, bytes | None] | None]
"""`values -> (row, key)`: the same for the values of a row, as text; None is null."""
_LENGTH: Final = struct.Struct(">i").unpack_from


class Form(Enum):
    """Kinds of columns for which `message_function` avoids a call for most values."""

    OTHER = "other"
    TEXT = "text"
    FLOAT64 = "float64"
    MOMENT = "moment"
    """A timestamp with time zone, in UTC."""


class WrittenColumn(NamedTuple):
    """One column of a relation.

    name: as JSON, None for a column that is not in records; write: converts a value's text to JSON, None if the text
    already is JSON; null: JSON for null, None if null is not allowed; form: of the values.
    """

    name: bytes | None
    write: Write | None = None
    null: bytes | None = None
    form: Form = Form.OTHER


def row_function(columns: Sequence[WrittenColumn], key: Sequence[int]) -> RowFunction:
    """Return the function for a table. key: the places of the key's columns, in the key's order."""
    namespace: dict[str, Any] = {"length": _LENGTH}
    lines = ["def row(message, at):"]
    for place, column in enumerate(columns):
        lines += ["    kind = message[at]", "    if kind == 116:", "        end = at + 5 + length(message, at + 1)[0]"]
        lines += [f"        {line}" for line in _value(place, column, "message[at + 5 : end]", namespace)]
        lines.append("        at = end")
        if column.name is None:
            lines += ["    elif kind == 110 or kind == 117:", "        at += 1"]
        elif column.null is not None:
            lines += ["    elif kind == 110:", f"        v{place} = null{place}", "        at += 1"]
        lines += ["    else:", "        return None"]
    lines.append(f"    return {_result(columns, key, namespace)}, at")
    return define("\n".join(lines), namespace)  # type: ignore[no-any-return] # the def above


def values_function(columns: Sequence[WrittenColumn], key: Sequence[int]) -> ValuesFunction:
    """Return the function for rows from COPY. key: as in `row_function`."""
    namespace: dict[str, Any] = {}
    lines = ["def row(values):"]
    for place, column in enumerate(columns):
        if column.name is None:
            continue
        lines += [f"    v{place} = values[{place}]", f"    if v{place} is None:"]
        lines.append("        return None" if column.null is None else f"        v{place} = null{place}")
        if column.write is not None or column.null is None:
            lines += ["    else:"]
            lines += [f"        {line}" for line in _value(place, column, f"v{place}", namespace)]
        namespace[f"null{place}"] = column.null
    lines.append(f"    return {_result(columns, key, namespace)}")
    return define("\n".join(lines), namespace)  # type: ignore[no-any-return] # the def above


def _value(place: int, column: WrittenColumn, text: str, namespace: dict[str, Any]) -> list[str]:
    """Return the lines that assign a value's JSON to its variable."""
    if column.name is None:
        return []
    namespace[f"null{place}"] = column.null
    if column.write is None:
        return [f"v{place} = {text}"]
    namespace[f"write{place}"] = column.write
    return [f"v{place} = write{place}({text})", f"if v{place} is None: return None"]


def _result(columns: Sequence[WrittenColumn], key: Sequence[int], namespace: dict[str, Any]) -> str:
    """Return the expression for row and key."""
    places = [place for place, column in enumerate(columns) if column.name is not None]
    namespace["all"] = row_format(columns, places)
    values = "".join(f"v{place}, " for place in places)
    if not key:
        return f"all % ({values}), None"
    namespace["key"] = row_format(columns, key)
    return f"all % ({values}), key % ({''.join(f'v{place}, ' for place in key)})"


def define(text: str, namespace: dict[str, Any]) -> Any:
    """Return the function `row` that the code defines. namespace: the objects that the code refers to."""
    exec(text, namespace)  # noqa: S102 - contains only numbers of columns
    return namespace["row"]


def row_format(columns: Sequence[WrittenColumn], places: Sequence[int]) -> bytes:
    """Return the format of a JSON object with these columns."""
    names = [name for place in places if (name := columns[place].name) is not None]
    return b"{" + b",".join(name.replace(b"%", b"%%") + b":%b" for name in names) + b"}"


Append = Callable[[bytes | None], None]
MessageFunction = Callable[[Append, Append, Mapping[bytes, bytes], bytes, bytes, bytes | memoryview], bool | None]
"""`(append, append_key, tails, before, between, message)`: appends the JSON of a record and of its key.

message: an XLogData message with its header. The record is the head, the row, `before`, the position, `between`, the
position again, and the tail of the operation (`I` or `U`). Returns True, or None if it has appended nothing.
"""
_SHORT_VALUE: Final = b"t\\0\\0\\0."
"""The bytes before a value of fewer than 256 bytes: its kind and its length."""


class _Reading(NamedTuple):
    """pattern: matches a value, with groups; expression: computes its JSON from these groups and `write`."""

    pattern: bytes
    expression: str


_READINGS: Final = {
    Form.OTHER: _Reading(rb"([^\0]*)", "{write}({0})"),
    # Printable ASCII without quotes and backslashes needs no escaping.
    Form.TEXT: _Reading(rb"(?:([ !#-\[\]-~]*)|([^\0]*))", "b'\"%b\"' % {0} if {0} is not None else {write}({1})"),
    # From 0.001 to 9999999.9: Java also writes these without an exponent, and always with a fraction.
    Form.FLOAT64: _Reading(
        rb"(?:(-?(?:[1-9]\d{0,6}\.\d+|0\.0{0,2}[1-9]\d*))|(-?(?:[1-9]\d{0,6}|0))|([^\0]*))",
        "{0} or ({1} + b'.0' if {1} else {write}({2}))",
    ),
    Form.MOMENT: _Reading(
        rb"(?:(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d\.\d{6})\+00|([^\0]*))",
        "b'\"%bT%bZ\"' % ({0}, {1}) if {0} else {write}({2})",
    ),
}


def message_function(
    oid: int,
    columns: Sequence[WrittenColumn],
    key: Sequence[int],
    *,
    operations: bytes,
    head: bytes,
    around_key: tuple[bytes, bytes],
) -> MessageFunction:
    """Return the function for one table.

    oid: of the table; key: the places of the key's columns, in the key's order; operations: `I`, `U` or both; head: the
    bytes before the row; around_key: the bytes before and after the key.
    """
    places = [place for place, column in enumerate(columns) if column.name is not None]
    namespace: dict[str, Any] = {}
    pattern, groups, lines = [], [], []
    for place, column in enumerate(columns):
        reading = _READINGS[column.form]
        if column.name is None:
            pattern.append(rb"[^\0]*")
            continue
        pattern.append(reading.pattern)
        names = [f"v{place}_{number}" for number in range(re.compile(pattern[-1]).groups)]
        groups += names
        namespace[f"write{place}"] = column.write
        if column.write is None:
            lines.append(f"v{place} = {names[0]}")
        else:
            lines.append(f"v{place} = " + reading.expression.format(*names, write=f"write{place}"))
            lines.append(f"if v{place} is None: return None")
    start = re.escape(oid.to_bytes(4, "big") + b"N" + len(columns).to_bytes(2, "big"))
    # Header (kind, two positions, time), kind, relation, mark of a new row, count of columns, values.
    ends = [_SHORT_VALUE] * (len(pattern) - 1) + [rb"\Z"]
    values = (
        _SHORT_VALUE + b"".join(b"(?>%b%b)" % pair for pair in zip(pattern, ends, strict=True)) if pattern else ends[0]
    )
    namespace["match"] = re.compile(b"(?s)w(.{8}).{16}([%b])%b%b" % (operations, start, values)).match
    namespace["record"] = head.replace(b"%", b"%%") + row_format(columns, places) + b"%b%b%b%b%b"
    first, last = (part.replace(b"%", b"%%") for part in around_key)
    namespace["key"] = first + row_format(columns, key) + last
    key_code = f"key % ({''.join(f'v{place}, ' for place in key)})" if key else "None"
    body = [
        "found = match(message)",
        "if found is None: return None",
        f"at, kind, {', '.join(groups)} = found.groups()",
        *lines,
        "at = b'%d' % int.from_bytes(at, 'big')",
        f"append(record % ({''.join(f'v{place}, ' for place in places)}before, at, between, at, tails[kind]))",
        f"append_key({key_code})",
        "return True",
    ]
    signature = "def row(append, append_key, tails, before, between, message):"
    return define("\n    ".join((signature, *body)), namespace)  # type: ignore[no-any-return] # the def above


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
