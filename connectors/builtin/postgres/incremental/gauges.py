"""The progress of an incremental snapshot for the connector's page, the API and alerts."""

from typing import Final

from ringfence.connectors.api import Gauge, SourceMetrics
from ringfence.connectors.builtin.postgres.incremental.state import IncrementalState
from ringfence.connectors.builtin.postgres.snapshot.rate import Rate

_PREFIX: Final = "incremental_snapshot_"


class IncrementalGauges:
    """The gauges of an incremental snapshot. They do not exist before the first snapshot."""

    def __init__(self, metrics: SourceMetrics) -> None:
        self._metrics = metrics
        self._gauges: dict[str, Gauge] = {}
        self._rate = Rate()
        self._table: Gauge | None = None

    def show(self, state: IncrementalState) -> None:
        """Set the gauges to the current state."""
        if not state.queue and not self._gauges:
            return
        left = state.rows_left
        rate = self._rate.measure(state.total)
        reading = rate if state.has_work else None
        self._set("tables_left", "Tables of the incremental snapshot that are not complete yet", len(state.queue))
        self._set("rows", "Rows of the incremental snapshot that were read", state.total)
        self._set(
            "rows_estimated", "Rows of the incremental snapshot, as estimated by the database", state.total + left
        )
        self._set("rows_per_second", "Rows of the incremental snapshot per second, over the last minute", reading)
        self._set(
            "left",
            "Time until the incremental snapshot is complete, at this rate",
            left / reading if reading else None,
            unit="seconds",
        )
        self._set("paused", "Whether the incremental snapshot is paused", float(state.paused))
        self._show_table(state)

    def _set(self, name: str, description: str, value: float | None, unit: str = "") -> None:
        gauge = self._gauges[name] = self._metrics.gauge(_PREFIX + name, description, unit=unit)
        gauge.set(value)

    def _show_table(self, state: IncrementalState) -> None:
        if self._table is not None:
            self._table.set(None)
            self._table = None
        if state.queue:
            first = state.queue[0]
            of_all = f"Rows of the table that were read again, of about {first.rows}"
            self._table = self._metrics.gauge(_PREFIX + "table_rows", of_all, labels={"table": first.name})
            self._table.set(state.rows)
