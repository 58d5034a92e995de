"""The plan of a snapshot: which tables, divided where. It is a source offset, committed before any row is read.

Partition `{"server": "shop", "snapshot": "plan", "part": 0}`; several parts where there are many tables. A later start,
with more or fewer tasks, finds the same ranges.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.connectors.api import ConnectorError, OffsetRecord, SourceOffset, SourcePartition

SNAPSHOT: Final = "snapshot"
_PLAN: Final = "plan"
_PART_BYTES: Final = 200_000
"""An offset has to fit into one record."""

Key = tuple[str, ...]
"""The values of a key's columns, as PostgreSQL writes them."""
Read = Callable[[SourcePartition], SourceOffset | None]


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """`key`: the columns that its rows are ordered and told apart by; empty where it has none. `bounds`: ascending, the
    last key of each range but the last one. `rows`: about how many it has.
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
        """The range begins behind this key; None for the first one."""
        return self.bounds[number - 1] if number else None

    def upper(self, number: int) -> Key | None:
        """The range ends with this key; None for the last one."""
        return self.bounds[number] if number < len(self.bounds) else None


@dataclass(frozen=True, slots=True)
class Plan:
    """`id`: tells this snapshot's range offsets from those of one before it; `began_ms`: since 1970."""

    id: str
    began_ms: int
    tables: tuple[PlannedTable, ...]

    def ranges(self) -> list[tuple[PlannedTable, int]]:
        """All of them, in the order in which they are dealt to tasks."""
        return [(table, number) for table in self.tables for number in range(table.ranges)]

    def share(self, task: int, tasks: int) -> list[tuple[PlannedTable, int]]:
        """What one of several tasks reads."""
        return self.ranges()[task::tasks]


def range_partition(server: str, table: PlannedTable, number: int) -> dict[str, object]:
    """The source partition of one range."""
    return {"server": server, SNAPSHOT: f"{table.schema}.{table.name}", "range": number}


def _part(server: str, number: int) -> dict[str, object]:
    return {"server": server, SNAPSHOT: _PLAN, "part": number}


def plan_records(server: str, plan: Plan) -> list[OffsetRecord]:
    """What commits the plan."""
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
    """The committed plan. Raises `ConnectorError` where a part is missing or is none."""
    first = read(_part(server, 0))
    if first is None:
        return None
    try:
        parts = [first, *(read(_part(server, number)) for number in range(1, int(str(first["parts"]))))]
        tables = [_table(entry) for part in parts for entry in _entries(part, first)]
        return Plan(str(first["id"]), int(str(first["began_ms"])), tuple(tables))
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectorError(
            "The plan of the snapshot among the source offsets is not whole. Stop the connector, reset its offsets and "
            "resume it: the tables are read from their beginning."
        ) from error


def _entries(part: SourceOffset | None, first: SourceOffset) -> Sequence[Any]:
    if part is None or part["id"] != first["id"] or not isinstance(part["tables"], list):
        raise ValueError("a part is missing")
    return part["tables"]


def _table(entry: Sequence[Any]) -> PlannedTable:
    oid, schema, name, key, bounds, rows = entry
    return PlannedTable(int(oid), schema, name, tuple(key), tuple(tuple(bound) for bound in bounds), int(rows))


def is_snapshot_partition(partition: Mapping[str, object]) -> bool:
    """Whether it is the plan's or a range's."""
    return SNAPSHOT in partition
