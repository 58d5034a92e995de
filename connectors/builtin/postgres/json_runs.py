"""Makes the JSON of consecutive rows of one table in one source transaction."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ringfence.connectors.api import Schema, SerializedRecords, SourceOffset, SourcePartition, SourceRecord
from ringfence.connectors.builtin.postgres.message_functions import MessageFunction
from ringfence.connectors.builtin.postgres.row_functions import RowFunction, ValuesFunction

Write = Callable[[bytes | memoryview], bool | None]
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
        self.write: Write = (
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
