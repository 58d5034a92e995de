"""The progress of a snapshot for the connector's page, the API and alerts: what all tasks have committed."""

from typing import Final

from ringfence.connectors.api import Gauge, SourceMetrics
from ringfence.connectors.builtin.postgres.snapshot.plan import PlannedTable
from ringfence.connectors.builtin.postgres.snapshot.rate import Rate
from ringfence.connectors.builtin.postgres.snapshot.state import SnapshotState

_MOST_TABLES: Final = 20
"""The maximum number of tables with a gauge of their own: the first unfinished ones."""


class SnapshotGauges:
    """The gauges of a snapshot. The first task sets them."""

    def __init__(self, metrics: SourceMetrics) -> None:
        gauge = metrics.gauge
        self._metrics = metrics
        self._tables = gauge("snapshot_tables_left", "Tables of the snapshot that are not complete yet")
        self._ranges = gauge("snapshot_ranges_left", "Ranges of the snapshot that are not complete yet")
        self._rows = gauge("snapshot_rows", "Rows of the snapshot that are in Kafka")
        self._estimate = gauge("snapshot_rows_estimated", "Rows of the snapshot, as estimated by the database")
        self._rate = gauge("snapshot_rows_per_second", "Rows of the snapshot per second, over the last minute")
        self._seconds = gauge("snapshot_left", "Time until the snapshot is complete, at this rate", unit="seconds")
        self._speed = Rate()
        self._by_table: dict[str, Gauge] = {}

    def show(self, state: SnapshotState) -> None:
        """Set the gauges to what is committed now."""
        if state.plan is None:
            return
        left = [one for one in state.plan.tables if not self._is_read(state, one)]
        rows = sum(progress.rows for progress in state.ranges.values())
        remaining = sum(max(0, one.rows - self._count_rows(state, one)) for one in left)
        self._tables.set(len(left))
        self._ranges.set(sum(not progress.done for progress in state.ranges.values()))
        self._rows.set(rows)
        self._estimate.set(rows + remaining)
        rate = self._speed.measure(rows)
        self._rate.set(rate if left else None)
        self._seconds.set(None if not left else remaining / rate if rate else None)
        self._show_tables(state, left)

    def _show_tables(self, state: SnapshotState, left: list[PlannedTable]) -> None:
        names = {f"{one.schema}.{one.name}": one for one in left}
        for name in list(self._by_table):
            if name not in names:
                self._by_table.pop(name).set(None)
        for name, one in names.items():
            if len(self._by_table) >= _MOST_TABLES and name not in self._by_table:
                break
            of_all = f"Rows of the table that are in Kafka, of about {one.rows}"
            gauge = self._by_table[name] = self._metrics.gauge("snapshot_table_rows", of_all, labels={"table": name})
            gauge.set(self._count_rows(state, one))

    @staticmethod
    def _is_read(state: SnapshotState, table: PlannedTable) -> bool:
        return all(state.ranges[table.oid, number].done for number in range(table.ranges))

    @staticmethod
    def _count_rows(state: SnapshotState, table: PlannedTable) -> int:
        return sum(state.ranges[table.oid, number].rows for number in range(table.ranges))
