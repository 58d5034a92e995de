"""What incremental snapshots have to do, and how far they are, in a source offset that is committed with the rows.

Requests (`snapshot_signals`) come from the API, or from Debezium's signal table: each inserted row, with the columns
id, type and data, is a request.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from ringfence.connectors.api import ConnectorError, OffsetRecord, ParsedConfig, SourceOffset, SourceRecord
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.pgoutput import Relation, read_row
from ringfence.connectors.builtin.postgres.snapshot_plan import SNAPSHOT, Key
from ringfence.connectors.sdk.snapshot_signals import PAUSE, RESUME, STOP, SnapshotRequest

_INCREMENTAL: Final = "incremental"


def incremental_partition(server: str) -> dict[str, object]:
    """Return the source partition of a connector's incremental snapshots."""
    return {"server": server, SNAPSHOT: _INCREMENTAL}


@dataclass(frozen=True, slots=True)
class QueuedTable:
    """A table to read. name: schema.table; rows: their estimated number."""

    oid: int
    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class IncrementalState:
    """The committed state.

    queue: the tables to read; the first one is being read. begun, upper, last, rows: of the first table: whether it was
    begun, its largest key at that time (None if not begun or empty), the key of the last row that was read, and the
    number of rows that were read. total: rows of all tables since the queue was empty. signal: the number of the newest
    API signal that was carried out. note: the result of the newest request or table.
    """

    queue: tuple[QueuedTable, ...] = ()
    begun: bool = False
    upper: Key | None = None
    last: Key | None = None
    rows: int = 0
    total: int = 0
    paused: bool = False
    signal: int = 0
    note: str = ""

    @property
    def has_work(self) -> bool:
        """Whether there is something to read now."""
        return bool(self.queue) and not self.paused

    @property
    def rows_left(self) -> int:
        """The estimated number of rows left; 0 for tables without an estimate."""
        return sum(one.rows for one in self.queue[1:]) + sum(max(0, one.rows - self.rows) for one in self.queue[:1])

    def execute(self, tables: Sequence[QueuedTable], note: str) -> "IncrementalState":
        """Append tables to the queue, except those that are already in it."""
        oids = {one.oid for one in self.queue}
        new = tuple(one for one in tables if one.oid not in oids)
        total, paused = (self.total, self.paused) if self.queue else (0, False)
        return replace(self, queue=self.queue + new, total=total, paused=paused, note=note)

    def obey(self, request: SnapshotRequest) -> "IncrementalState":
        """Carry out a request to pause, resume or stop."""
        if request.kind == PAUSE:
            return replace(self, paused=bool(self.queue), note="Paused." if self.queue else "Nothing is read.")
        if request.kind == RESUME:
            return replace(self, paused=False, note="Resumed." if self.queue else "Nothing is read.")
        assert request.kind == STOP
        left = tuple(one for one in self.queue if request.tables and not request.names(one.name))
        count = len(self.queue) - len(left)
        stopped = replace(self, note=f"Stopped: {count} {'table' if count == 1 else 'tables'}.")
        if self.queue and left[:1] == self.queue[:1]:
            return replace(stopped, queue=left)
        return stopped._turn_to(left)

    def begin(self, upper: Key | None) -> "IncrementalState":
        """Begin the first table. upper: its largest key; None if it is empty."""
        return replace(self, begun=True, upper=upper)

    def advance(self, last: Key | None, rows: int) -> "IncrementalState":
        """Add `rows` rows of the first table, up to the key `last`."""
        return replace(self, last=last, rows=self.rows + rows, total=self.total + rows)

    def finish_table(self, note: str) -> "IncrementalState":
        """Remove the first table, which is complete or cannot be read."""
        return replace(self, note=note)._turn_to(self.queue[1:])

    def _turn_to(self, queue: tuple[QueuedTable, ...]) -> "IncrementalState":
        paused = self.paused and bool(queue)
        return replace(self, queue=queue, begun=False, upper=None, last=None, rows=0, paused=paused)

    def as_offset(self) -> SourceOffset:
        return {
            "queue": [[one.oid, one.name, one.rows] for one in self.queue],
            "begun": self.begun,
            "upper": None if self.upper is None else list(self.upper),
            "last": None if self.last is None else list(self.last),
            "rows": self.rows,
            "total": self.total,
            "paused": self.paused,
            "signal": self.signal,
            "note": self.note,
        }


def state_of(offset: SourceOffset | None) -> IncrementalState:
    """Return the state in an offset: an empty one if it is None. Raises `ConnectorError` for an invalid offset."""
    if offset is None:
        return IncrementalState()
    try:
        queue: Any = offset["queue"]
        return IncrementalState(
            tuple(QueuedTable(int(oid), str(name), int(rows)) for oid, name, rows in queue),
            offset["begun"] is True,
            _key(offset["upper"]),
            _key(offset["last"]),
            int(str(offset["rows"])),
            int(str(offset["total"])),
            offset["paused"] is True,
            int(str(offset["signal"])),
            str(offset["note"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectorError(
            f"The offset {dict(offset)} of the incremental snapshot is invalid. Delete it: stop the connector, and "
            "alter its offsets with null for this partition. Then request the snapshot again."
        ) from error


def _key(value: Any) -> Key | None:
    return None if value is None else tuple(map(str, value))


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
