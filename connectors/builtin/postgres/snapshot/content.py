"""Skips changes of the stream that the snapshot's rows already contain.

The rule: a change is contained if its key is in a segment whose database snapshot sees the change's transaction. A
change of a key is a delete under the old key and a create under the new key; the rule applies to each of them. Nothing
after the position `until` is contained. docs/decisions/postgres-snapshot-rule.md has the rule;
tests/postgres/test_snapshot_model.py shows the consequences of leaving out parts of it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ringfence.connectors.api import ConnectorError, OffsetRecord
from ringfence.connectors.builtin.postgres.pgoutput import Change, Relation
from ringfence.connectors.builtin.postgres.snapshot.change_keys import ChangeKeys
from ringfence.connectors.builtin.postgres.snapshot.key_order import KeyOrder
from ringfence.connectors.builtin.postgres.snapshot.plan import Key, Plan, PlannedTable, range_partition
from ringfence.connectors.builtin.postgres.snapshot.range_offsets import RangeProgress
from ringfence.connectors.builtin.postgres.snapshot.visibility import Visibility

logger = logging.getLogger(__name__)

Order = Callable[[PlannedTable, Sequence[Key]], KeyOrder]


class ReadTable:
    """One table of the snapshot, with the database snapshots that its rows were read with, by key."""

    def __init__(self, table: PlannedTable, ranges: Sequence[RangeProgress], order: Order) -> None:
        self.table = table
        self.ranges = ranges
        self.views: list[Visibility] = []
        starts: list[Key] = []
        for number, progress in enumerate(ranges):
            for place, segment in enumerate(progress.segments):
                start = segment.after if place else table.lower(number)
                if self.views:
                    assert start is not None
                    starts.append(start)
                self.views.append(Visibility.parse(segment.snapshot))
        self.until = max((segment.until for one in ranges for segment in one.segments), default=0)
        self._order = order(table, starts) if starts else None
        self._change_keys = ChangeKeys(table.key)

    def relate(self, relation: Relation) -> None:
        """Register the table's columns for the following changes. Raises `ConnectorError` if the key is incomplete."""
        if self._order is None:
            return
        if missing := self._change_keys.relate(relation):
            raise ConnectorError(
                f"{relation.schema}.{relation.name} no longer has the column {missing} of the key by which its rows "
                "were read. It is unknown which of its changes the snapshot contains. Stop the connector, reset its "
                "offsets and resume it: the tables are read again."
            )

    def sees(self, key: Key, xid: int) -> bool:
        """Return whether the row that was read under the key, or its absence, reflects the transaction."""
        return self.views[self._order.count_below(key) if self._order is not None else 0].has(xid)

    def remainder(self, change: Change, message: bytes, xid: int) -> Change | None:
        """Return the part of a change that the rows do not contain; None if they contain all of it."""
        if self._order is None:
            return None if self.views[0].has(xid) else change
        old, new = self._change_keys.find(change, message)
        if old == new:
            return None if self.sees(new, xid) else change
        saw_old, come = self.sees(old, xid), self.sees(new, xid)
        if saw_old and come:
            return None
        if saw_old:
            return Change("c", change.relation, None, change.after, torn=change.torn)
        if come:
            return Change("d", change.relation, change.before, None, key_only=change.key_only)
        return change


class SnapshotContent:
    """The tables of a finished snapshot. until: the position after which nothing is contained."""

    def __init__(self, server: str, plan: Plan, ranges: Mapping[tuple[int, int], RangeProgress], order: Order) -> None:
        """ranges: by the table's oid and the number of the range."""
        self._server = server
        self._tables: dict[int, ReadTable] = {}
        for table in plan.tables:
            read = ReadTable(table, [ranges[table.oid, number] for number in range(table.ranges)], order)
            if read.views:
                self._tables[table.oid] = read
        self.until: Final = max((table.until for table in self._tables.values()), default=0)

    def relate(self, relation: Relation) -> None:
        """See `ReadTable.relate`."""
        if (table := self._tables.get(relation.oid)) is not None:
            table.relate(relation)

    def remainder(self, change: Change, message: bytes, xid: int) -> Change | None:
        """Return the part of a change that the rows do not contain; None if they contain all of it."""
        table = self._tables.get(change.relation)
        return change if table is None else table.remainder(change, message, xid)

    def truncate(self, oid: int, xid: int, *, skipped: bool) -> list[OffsetRecord] | None:
        """Return None if the rows contain a TRUNCATE, which means that all of them were read after it.

        If some were read after it and others before, a consumer that applies the TRUNCATE loses both. So nothing of the
        table counts as contained any longer; the returned records commit that. skipped: TRUNCATE has no records.
        """
        table = self._tables.get(oid)
        if table is None:
            return []
        views_with_it = [view.has(xid) for view in table.views]
        if all(views_with_it):
            return None
        if skipped or not any(views_with_it):
            return []
        del self._tables[oid]
        logger.warning(
            "%s.%s was truncated while the snapshot read it: later changes are delivered again, after the TRUNCATE",
            *(table.table.schema, table.table.name),
        )
        return list(_without_segments(self._server, table))


def _without_segments(server: str, table: ReadTable) -> Iterable[OffsetRecord]:
    for number, progress in enumerate(table.ranges):
        offset = RangeProgress(progress.plan, (), progress.last, progress.rows, progress.done, progress.at_ms)
        yield OffsetRecord(range_partition(server, table.table, number), offset.as_offset())
