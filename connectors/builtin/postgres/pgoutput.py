"""Decodes pgoutput, the format of PostgreSQL's built-in logical replication (protocol version 1, text values).

Rows are decoded directly into the values of records: `Table` has a reader for each column of a relation. A source
transaction is a Begin message, its changes, and a Commit message.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

UNCHANGED: Final = object()
"""Replaces a value stored out of line (TOAST) that the update did not change: the server does not send it."""
_EPOCH_US: Final = 946_684_800_000_000
"""PostgreSQL's epoch, 2000, in microseconds since 1970."""

_BEGIN: Final = struct.Struct(">cQqI").unpack_from
_COMMIT: Final = struct.Struct(">cBQQq").unpack_from
_LENGTH: Final = struct.Struct(">i").unpack_from
_COLUMN: Final = struct.Struct(">Ii").unpack_from

Row = list[object]
Read = Callable[[bytes], object]


class RelationColumn(NamedTuple):
    """A column. in_identity: whether it is part of the replica identity; oid, typmod: of its type."""

    name: str
    in_identity: bool
    oid: int
    typmod: int


class Relation(NamedTuple):
    """A table as it was when the following rows were written. identity: d(efault), n(othing), f(ull) or i(ndex)."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class Begin(NamedTuple):
    """commit_lsn: the position of the transaction's commit record; time_us: of the commit, microseconds since 1970."""

    commit_lsn: int
    time_us: int
    xid: int


class Commit(NamedTuple):
    """end_lsn: the position after the transaction, from which a stream continues with the next one."""

    commit_lsn: int
    end_lsn: int
    time_us: int


class Truncate(NamedTuple):
    """A TRUNCATE, with the oids of all its tables."""

    relations: tuple[int, ...]


class LogicalMessage(NamedTuple):
    """A message that `pg_logical_emit_message` has written."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


class Reading(Protocol):
    """Decodes the rows of one relation: one reader for each column, in the relation's order."""

    @property
    def readers(self) -> Sequence[Read]: ...


class _NotRead:
    readers: Final = ()


class RawReading:
    """Decodes rows into PostgreSQL's text format."""

    def __init__(self, columns: int) -> None:
        self.readers = [bytes] * columns


NOT_READ: Final[Reading] = _NotRead()
"""A relation whose rows are not decoded."""


class Change:
    """A row that was inserted ("c"), updated ("u") or deleted ("d").

    before: the old row, or its replica identity if `key_only`; None if the server sent neither. after: None for a
    delete. torn: whether `after` contains `UNCHANGED`.
    """

    __slots__ = ("after", "before", "key_only", "op", "relation", "torn")

    def __init__(
        self, op: str, relation: int, before: Row | None, after: Row | None, key_only: bool = False, torn: bool = False
    ) -> None:
        self.op = op
        self.relation = relation
        self.before = before
        self.after = after
        self.key_only = key_only
        self.torn = torn


Event = Begin | Commit | Change | Truncate | LogicalMessage | Relation | None


def decode(message: bytes, tables: "dict[int, Reading]") -> Event:
    """Decode one message. tables: by the relation's oid. Raises `KeyError` for a row of an unknown relation.

    None for messages that are not about data (types, origins).
    """
    kind = message[0]
    if kind == 73:  # I(nsert)
        oid = int.from_bytes(message[1:5], "big")
        after, _, _ = read_row(message, 6, tables[oid].readers)
        return Change("c", oid, None, after)
    if kind == 85:  # U(pdate)
        return _update(message, tables)
    if kind == 68:  # D(elete)
        oid = int.from_bytes(message[1:5], "big")
        before, _, _ = read_row(message, 6, tables[oid].readers)
        return Change("d", oid, before, None, key_only=message[5] == 75)
    if kind == 66:  # B(egin)
        _, lsn, time, xid = _BEGIN(message)
        return Begin(lsn, time + _EPOCH_US, xid)
    if kind == 67:  # C(ommit)
        _, _, lsn, end, time = _COMMIT(message)
        return Commit(lsn, end, time + _EPOCH_US)
    if kind == 82:  # R(elation)
        return _relation(message)
    if kind == 84:  # T(runcate)
        count = int.from_bytes(message[1:5], "big")
        return Truncate(struct.unpack_from(f">{count}I", message, 6))
    if kind == 77:  # M(essage)
        end = message.index(b"\0", 10)
        size = int.from_bytes(message[end + 1 : end + 5], "big")
        return LogicalMessage(
            bool(message[1]),
            int.from_bytes(message[2:10], "big"),
            message[10:end].decode(),
            message[end + 5 : end + 5 + size],
        )
    return None


def _update(message: bytes, tables: "dict[int, Reading]") -> Change:
    oid = int.from_bytes(message[1:5], "big")
    readers = tables[oid].readers
    mark, at = message[5], 6
    before: Row | None = None
    if mark != 78:  # K(ey) or O(ld) first, then N(ew)
        before, at, _ = read_row(message, at, readers)
        at += 1
    after, _, torn = read_row(message, at, readers)
    if torn and mark == 79 and before is not None:  # the complete old row contains the unchanged values
        after = [old if new is UNCHANGED else new for old, new in zip(before, after, strict=True)]
        torn = False
    return Change("u", oid, before, after, key_only=mark == 75, torn=torn)


def read_row(message: bytes, at: int, readers: Sequence[Read]) -> tuple[Row, int, bool]:
    """Return the values of the row whose count of columns is at `at`, the row's end, and whether any is UNCHANGED."""
    at += 2
    values: Row = []
    add = values.append
    torn = False
    for read in readers:
        kind = message[at]
        if kind == 116:  # t(ext)
            end = at + 5 + _LENGTH(message, at + 1)[0]
            add(read(message[at + 5 : end]))
            at = end
        elif kind == 110:  # n(ull)
            add(None)
            at += 1
        else:  # u(nchanged)
            add(UNCHANGED)
            torn = True
            at += 1
    return values, at, torn


def _relation(message: bytes) -> Relation:
    oid = int.from_bytes(message[1:5], "big")
    end = message.index(b"\0", 5)
    schema = message[5:end].decode()
    start, end = end + 1, message.index(b"\0", end + 1)
    name = message[start:end].decode()
    identity = chr(message[end + 1])
    count = int.from_bytes(message[end + 2 : end + 4], "big")
    at = end + 4
    columns = []
    for _ in range(count):
        in_identity = bool(message[at] & 1)
        end = message.index(b"\0", at + 1)
        oid_, typmod = _COLUMN(message, end + 1)
        columns.append(RelationColumn(message[at + 1 : end].decode(), in_identity, oid_, typmod))
        at = end + 9
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))
