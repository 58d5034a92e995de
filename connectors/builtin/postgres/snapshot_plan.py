"""The plan of a snapshot, and what was read of its ranges. Both are source offsets; the plan is committed before any
row is read.

The plan's partition is `{"server": "shop", "snapshot": "plan", "part": 0}`; many tables need several parts. A later
start with more or fewer tasks finds the same ranges.

A range is read with one database snapshot. After a failure, the task continues after the last committed key with a
newer snapshot, so a range may have several segments. The stream needs to know the database snapshot of each segment.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ringfence.connectors.api import ConnectorError, OffsetRecord, SourceOffset, SourcePartition

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
