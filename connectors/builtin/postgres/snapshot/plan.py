"""The plan of a snapshot: its tables and their ranges. It is a source offset that is committed before any row is read.

Its partition is `{"server": "shop", "snapshot": "plan", "part": 0}`; many tables need several parts. A later start
with more or fewer tasks finds the same ranges.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
