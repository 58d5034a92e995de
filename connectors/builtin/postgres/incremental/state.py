"""How far incremental snapshots are, and what was asked for: a source offset, committed with the rows it speaks of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ringfence.connectors.api import ConnectorError, SourceOffset
from ringfence.connectors.builtin.postgres.incremental.requests import PAUSE, RESUME, STOP, SnapshotRequest
from ringfence.connectors.builtin.postgres.snapshot.plan import SNAPSHOT, Key

_INCREMENTAL: Final = "incremental"


def incremental_partition(server: str) -> dict[str, object]:
    """The source partition of a connector's incremental snapshots."""
    return {"server": server, SNAPSHOT: _INCREMENTAL}


@dataclass(frozen=True, slots=True)
class QueuedTable:
    """`name`: schema.table; `rows`: about how many it has."""

    oid: int
    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class IncrementalState:
    """`queue`: tables to read, the first one now. Of it: `upper`, its largest key when it was begun (None where it was
    not begun, or is empty), `last`, the key of the last row that was read, and `rows`, how many were. `total`: rows of
    all tables since the queue was empty. `signal`: the newest one that was carried out of those by the API. `note`:
    what became of the newest request.
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
    def wanted(self) -> bool:
        """There is something to read now."""
        return bool(self.queue) and not self.paused

    @property
    def rows_left(self) -> int:
        """About how many, as the database has estimated; 0 where it has no estimate."""
        return sum(one.rows for one in self.queue[1:]) + sum(max(0, one.rows - self.rows) for one in self.queue[:1])

    def execute(self, tables: Sequence[QueuedTable], note: str) -> "IncrementalState":
        """Read these, too. Those that wait already are not read twice."""
        known = {one.oid for one in self.queue}
        new = tuple(one for one in tables if one.oid not in known)
        total, paused = (self.total, self.paused) if self.queue else (0, False)
        return replace(self, queue=self.queue + new, total=total, paused=paused, note=note)

    def obey(self, request: SnapshotRequest) -> "IncrementalState":
        """Pause, resume or stop."""
        if request.kind == PAUSE:
            return replace(self, paused=bool(self.queue), note="Paused." if self.queue else "Nothing is read.")
        if request.kind == RESUME:
            return replace(self, paused=False, note="Resumed." if self.queue else "Nothing is read.")
        assert request.kind == STOP
        left = tuple(one for one in self.queue if request.tables and not request.names(one.name))
        gone = len(self.queue) - len(left)
        stopped = replace(self, note=f"Stopped: {gone} {'table' if gone == 1 else 'tables'}.")
        if self.queue and left[:1] == self.queue[:1]:
            return replace(stopped, queue=left)
        return stopped._turn_to(left)

    def begin(self, upper: Key | None) -> "IncrementalState":
        """The first table is begun."""
        return replace(self, begun=True, upper=upper)

    def advance(self, last: Key | None, rows: int) -> "IncrementalState":
        """So many rows of the first table more were read."""
        return replace(self, last=last, rows=self.rows + rows, total=self.total + rows)

    def finish_table(self, note: str) -> "IncrementalState":
        """The first table is read, or cannot be."""
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
    """Nothing to read where there is no offset. Raises `ConnectorError`."""
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
            f"The offset {dict(offset)} does not say how far the incremental snapshot is. Delete it: stop the "
            "connector, and alter its offsets with null for this partition. The snapshot can be asked for again."
        ) from error


def _key(value: Any) -> Key | None:
    return None if value is None else tuple(map(str, value))
