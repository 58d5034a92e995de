"""The source offsets that PostgresSource commits: its position in the stream, the plan and the progress of a snapshot,
and what incremental snapshots have to do.

The stream's offset says where to continue, to which server that belongs, and what to skip there. `{"lsn_commit":
26678520}` is the end of the last transaction that is completely in Kafka, `system_id` identifies the database cluster,
and `timeline` the timeline of its write-ahead log. If a transaction was split, `xid` is its id, and `seq` the number of
its changes that are in Kafka: a transaction is decoded in the same order each time. `txId` and `ts_usec` are for
information only, as in Debezium. Positions in the write-ahead log (LSNs) are integers in offsets, and `16/B374D848` in
SQL and messages.

Offsets of Debezium's connector are read, too, to continue after what it has delivered. There, `lsn_commit` is the same.
Within the next transaction, `txId`, Debezium's offset has a position instead of a count: `lsn_proc` is the position of
the last delivered change. Rows of one COPY can share a position; then the offset does not show how many of them were
delivered.

The plan of a snapshot is committed before any row is read. Its partition is `{"server": "shop", "snapshot": "plan",
"part": 0}`; many tables need several parts. A later start with more or fewer tasks finds the same ranges. A range is
read with one database snapshot. After a failure, the task continues after the last committed key with a newer snapshot,
so a range may have several segments. The stream needs to know the database snapshot of each segment.

The state of incremental snapshots is committed with their rows. Requests (`snapshot_signals`) come from the API, or
from Debezium's signal table.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from ringfence.connectors.api import (
    ConnectorError,
    OffsetRecord,
    SourceOffset,
    SourcePartition,
)
from ringfence.connectors.sdk.snapshot_signals import PAUSE, RESUME, STOP, SnapshotRequest

LSN: Final = "lsn_commit"
XID: Final = "xid"
SEQ: Final = "seq"
SYSTEM: Final = "system_id"
TIMELINE: Final = "timeline"
PROCESSED: Final = "lsn_proc"
"""In Debezium's offsets only."""


def lsn_text(number: int) -> str:
    """Format a position as the server does."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """Parse a position that the server has written."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


_FINISH: Final = "Resume it in Kafka Connect until it streams, change a captured row twice, and stop it again."


class DeliveredPosition(NamedTuple):
    """The changes of the transaction `xid` up to the position `lsn` are in Kafka."""

    xid: int
    lsn: int


def read_delivered(offset: SourceOffset) -> DeliveredPosition:
    """Return what Debezium has delivered. Raises `ConnectorError` for an offset without a position in the stream."""
    if any(value is not None for key, value in offset.items() if key.startswith("incremental_snapshot_primary_key")):
        raise ConnectorError(f"Debezium is in the middle of an incremental snapshot. {_FINISH}")
    values = [offset.get(name) for name in (LSN, "txId", PROCESSED)]
    numbers = [each for each in values if isinstance(each, int) and not isinstance(each, bool) and each >= 0]
    if len(numbers) < len(values):
        raise ConnectorError(
            f"Debezium's offset {dict(offset)} is from a snapshot, or from the first transaction that it has read, and "
            f"does not contain the position to continue from. {_FINISH}"
        )
    return DeliveredPosition(numbers[1], numbers[2])


class SharedPosition:
    """Skips what Debezium has delivered, and detects that several changes share the last delivered position."""

    def __init__(self, delivered: DeliveredPosition) -> None:
        self._delivered = delivered
        self._before = 0

    def is_over(self, xid: int) -> bool:
        """Return whether `xid` is the transaction in which Debezium stopped: after its end, nothing is skipped."""
        return xid == self._delivered.xid

    def skips(self, xid: int, lsn: int, seq: int) -> bool:
        """Return whether Debezium has delivered this change, the `seq`th of its transaction.

        Raises `ConnectorError` if changes share the last delivered position.
        """
        if xid != self._delivered.xid or lsn > self._delivered.lsn:
            return False
        if lsn == self._before == self._delivered.lsn:
            raise ConnectorError(
                f"Debezium stopped among rows of one COPY that share the position {lsn} in transaction {xid}, and its "
                "offset does not show how many of them it has delivered. If it had delivered all of them before it was "
                "stopped (the source was idle), let it deliver one more change and stop it again. Otherwise find its "
                f"last record of that transaction, and alter the offset to lsn_commit, 'xid': {xid}, and 'seq': the "
                f"number of the transaction's delivered changes ({seq - 2} precede the COPY's rows)."
            )
        self._before = lsn
        return True


class Origin(NamedTuple):
    """The database cluster and the timeline that positions belong to. timeline: None if unknown, as on a standby."""

    system: str
    timeline: int | None = None


class Position(NamedTuple):
    """A position in the stream.

    xid, seq: of a split transaction, the first one after `lsn`; 0 if the position is between two transactions.
    debezium: what Debezium has delivered, if the offset is Debezium's. timeline: None if unknown.
    """

    lsn: int
    xid: int = 0
    seq: int = 0
    system: str | None = None
    debezium: DeliveredPosition | None = None
    timeline: int | None = None


def position_of(offset: SourceOffset) -> Position:
    """Return the position of an offset. Raises `ConnectorError` if it is not an offset of this connector."""
    debezium = read_delivered(offset) if PROCESSED in offset else None
    numbers = [offset.get(LSN), offset.get(XID, 0), offset.get(SEQ, 0)]
    if any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in numbers):
        raise ConnectorError(
            f"The offset {dict(offset)} must have a position in the write-ahead log under {LSN!r}, as an integer. "
            "Stop the connector, and alter or reset its offsets."
        )
    system = offset.get(SYSTEM)
    lsn, xid, seq = (number for number in numbers if isinstance(number, int))
    timeline = offset.get(TIMELINE)
    return Position(
        *(lsn, xid, seq),
        system if isinstance(system, str) else None,
        debezium,
        timeline if isinstance(timeline, int) else None,
    )


def start_at(lsn: int, origin: Origin) -> SourceOffset:
    """Return the offset of a position before which nothing was read."""
    timeline = {} if origin.timeline is None else {TIMELINE: origin.timeline}
    return {LSN: lsn, SYSTEM: origin.system, **timeline}


def between(lsn: int, origin: Origin, xid: int, time_us: int) -> SourceOffset:
    """Return the offset at the end of a transaction. time_us: its commit, microseconds since 1970."""
    return {**start_at(lsn, origin), "txId": xid, "ts_usec": time_us}


def within(start: SourceOffset, xid: int, seq: int) -> SourceOffset:
    """Return the offset after `seq` changes of the transaction that begins at the offset `start`."""
    base = {name: start[name] for name in (LSN, SYSTEM, TIMELINE) if name in start}
    return {**base, XID: xid, SEQ: seq}


class AlreadyRead:
    """Finds the changes to skip, from the position at which the stream starts."""

    def __init__(self, start: Position) -> None:
        self._skip = (start.xid, start.seq)
        self._debezium = SharedPosition(start.debezium) if start.debezium is not None else None

    def skips(self, xid: int, lsn: int, seq: int) -> bool:
        """Return whether the `seq`th change of a transaction was delivered. Raises `ConnectorError` if unknown."""
        if xid == self._skip[0] and seq <= self._skip[1]:
            return True
        return self._debezium is not None and self._debezium.skips(xid, lsn, seq)

    def may_skip(self, xid: int, changes: int) -> bool:
        """Return whether `skips` may be true for a change after the first `changes` of this transaction."""
        return (xid == self._skip[0] and changes < self._skip[1]) or self._debezium is not None

    def restart(self, xid: int, changes: int) -> None:
        """Skip the changes of a transaction that were read before the stream was restarted."""
        self._skip = (xid, changes)

    def end(self, xid: int) -> None:
        """Note that a transaction has ended."""
        if self._debezium is not None and self._debezium.is_over(xid):
            self._debezium = None
        if xid == self._skip[0]:
            self._skip = (0, 0)


SNAPSHOT: Final = "snapshot"
_PLAN: Final = "plan"
_PART_BYTES: Final = 200_000
"""The maximum size of a part, so that its offset fits into one record."""

Key = tuple[str, ...]
"""The values of a key's columns, in PostgreSQL's text format."""
Read = Callable[[SourcePartition], SourceOffset | None]


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table of the plan. key: the columns that order and identify its rows; empty if it has no key. bounds: the last
    key of each range except the last range, ascending. rows: the estimated number of rows.
    """

    oid: int
    schema: str
    name: str
    key: tuple[str, ...]
    bounds: tuple[Key, ...]
    rows: int

    @property
    def ranges(self) -> int:
        return len(self.bounds) + 1

    def lower(self, number: int) -> Key | None:
        """Return the key after which a range starts; None for the first range."""
        return self.bounds[number - 1] if number else None

    def upper(self, number: int) -> Key | None:
        """Return the last key of a range; None for the last range."""
        return self.bounds[number] if number < len(self.bounds) else None


@dataclass(frozen=True, slots=True)
class Plan:
    """id: distinguishes this snapshot's range offsets from an earlier one's; began_ms: since 1970."""

    id: str
    began_ms: int
    tables: tuple[PlannedTable, ...]

    def ranges(self) -> list[tuple[PlannedTable, int]]:
        """Return all ranges, in the order in which they are distributed to tasks."""
        return [(table, number) for table in self.tables for number in range(table.ranges)]

    def share(self, task: int, tasks: int) -> list[tuple[PlannedTable, int]]:
        """Return the ranges that a task reads. tasks: the number of tasks."""
        return self.ranges()[task::tasks]


def range_partition(server: str, table: PlannedTable, number: int) -> dict[str, object]:
    """Return the source partition of one range."""
    return {"server": server, SNAPSHOT: f"{table.schema}.{table.name}", "range": number}


def _part(server: str, number: int) -> dict[str, object]:
    return {"server": server, SNAPSHOT: _PLAN, "part": number}


def plan_records(server: str, plan: Plan) -> list[OffsetRecord]:
    """Return the records that commit the plan."""
    parts: list[list[object]] = [[]]
    size = 0
    for table in plan.tables:
        entry = [table.oid, table.schema, table.name, list(table.key), [list(b) for b in table.bounds], table.rows]
        size += len(json.dumps(entry))
        if size > _PART_BYTES and parts[-1]:
            parts.append([])
            size = 0
        parts[-1].append(entry)
    head = {"id": plan.id, "began_ms": plan.began_ms, "parts": len(parts)}
    return [OffsetRecord(_part(server, number), {**head, "tables": tables}) for number, tables in enumerate(parts)]


def read_plan(server: str, read: Read) -> Plan | None:
    """Return the committed plan, or None. Raises `ConnectorError` if a part is missing or invalid."""
    first = read(_part(server, 0))
    if first is None:
        return None
    try:
        parts = [first, *(read(_part(server, number)) for number in range(1, int(str(first["parts"]))))]
        tables = [_table(entry) for part in parts for entry in _entries(part, first)]
        return Plan(str(first["id"]), int(str(first["began_ms"])), tuple(tables))
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectorError(
            "The plan of the snapshot in the source offsets is incomplete. Stop the connector, reset its offsets and "
            "resume it: the tables are read from the beginning."
        ) from error


def _entries(part: SourceOffset | None, first: SourceOffset) -> Sequence[Any]:
    if part is None or part["id"] != first["id"] or not isinstance(part["tables"], list):
        raise ValueError("a part is missing")
    return part["tables"]


def _table(entry: Sequence[Any]) -> PlannedTable:
    oid, schema, name, key, bounds, rows = entry
    return PlannedTable(int(oid), schema, name, tuple(key), tuple(tuple(bound) for bound in bounds), int(rows))


def is_snapshot_partition(partition: Mapping[str, object]) -> bool:
    """Return whether a source partition belongs to a plan or a range."""
    return SNAPSHOT in partition


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows after the key `after` (None: from the range's beginning), up to the next segment or the range's end.

    snapshot: `pg_current_snapshot()` as text. until: a position in the write-ahead log after the commit of every
    transaction that the snapshot sees.
    """

    after: Key | None
    snapshot: str
    until: int


@dataclass(frozen=True, slots=True)
class RangeProgress:
    """last: the key of the last row that was read, None before the first; rows: the number of rows that were read;
    at_ms: when the last one was read, since 1970.
    """

    plan: str
    segments: tuple[Segment, ...] = ()
    last: Key | None = None
    rows: int = 0
    done: bool = False
    at_ms: int = 0

    def begin(self, snapshot: str, until: int) -> "RangeProgress":
        """Begin a segment for the rest of the range. It replaces the last segment if that has no rows."""
        segments = self.segments
        if segments and (self.last is None or segments[-1].after == self.last):
            segments = segments[:-1]
        return replace(self, segments=(*segments, Segment(self.last, snapshot, until)))

    def as_offset(self) -> SourceOffset:
        return {
            "plan": self.plan,
            "segments": [[_as_list(one.after), one.snapshot, one.until] for one in self.segments],
            "last": _as_list(self.last),
            "rows": self.rows,
            "done": self.done,
            "at_ms": self.at_ms,
        }


def _as_list(key: Key | None) -> list[str] | None:
    return None if key is None else list(key)


def _as_key(value: Any) -> Key | None:
    return None if value is None else tuple(map(str, value))


def progress_of(plan: Plan, offset: SourceOffset | None) -> RangeProgress:
    """Return the progress in an offset: none if the offset is missing or of an earlier plan. Raises
    `ConnectorError` for an invalid offset.
    """
    if offset is None or offset.get("plan") != plan.id:
        return RangeProgress(plan.id)
    try:
        segments: Sequence[Any] = offset["segments"]  # type: ignore[assignment] # checked by what follows
        return RangeProgress(
            plan.id,
            tuple(Segment(_as_key(after), str(snapshot), int(until)) for after, snapshot, until in segments),
            _as_key(offset["last"]),
            int(str(offset["rows"])),
            offset["done"] is True,
            int(str(offset.get("at_ms", 0))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectorError(
            f"The offset {dict(offset)} of a range of the snapshot is invalid. Stop the connector, reset its offsets "
            "and resume it: the tables are read from the beginning."
        ) from error


_SHARE: Final = "postgres.snapshot.share"
"""In a task's configuration: its number and the number of tasks, `0/4`."""


def share_config(number: int, tasks: int) -> dict[str, str]:
    """Return the setting with a task's share of the snapshot."""
    return {_SHARE: f"{number}/{tasks}"}


def share_of(config: Mapping[str, str]) -> tuple[int, int]:
    """Return the task's number and the number of tasks."""
    number, tasks = config.get(_SHARE, "0/1").split("/")
    return int(number), int(tasks)


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
            _as_key(offset["upper"]),
            _as_key(offset["last"]),
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
