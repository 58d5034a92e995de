"""Incremental snapshots of PostgresSource, for API and pages: their progress, and users' requests."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ringfence import dispatch
from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.postgres.incremental.requests import (
    COLLECTIONS,
    IncrementalState,
    incremental_partition,
    parse_request,
    state_of,
)
from ringfence.http.errors import ConnectError, bad_request
from ringfence.projection.models import Connector, SourceOffset, Task, pack
from ringfence.projection.models.connectors import partition_key
from ringfence.projection.plugin_metrics import metrics_of
from ringfence.requests.commands import SendSignal

_CLASSES: Final = frozenset({"PostgresSource", "PostgresSourceConnector"})
_GAUGE: Final = "incremental_snapshot_"


@dataclass(frozen=True, slots=True)
class Progress:
    """state: the committed state. refusal: why nothing can be requested now, "" if it can. measured: the task's gauges,
    by their names without the prefix `incremental_snapshot_`, during a snapshot.
    """

    state: IncrementalState = field(default_factory=IncrementalState)
    refusal: str = ""
    updated_ms: int = 0
    measured: dict[str, float] = field(default_factory=dict)

    @property
    def percent(self) -> int | None:
        """Percentage of the rows, by the database's estimate; None without an estimate, and if nothing
        is being read.
        """
        return percent_of(self.state.total, self.state.rows_left)


def percent_of(rows: int, left: int) -> int | None:
    """Return the percentage of rows that are done; None if it is unknown how many are left."""
    return 100 * rows // (rows + left) if left else None


def takes_snapshots(row: Connector) -> bool:
    """Return whether the connector supports incremental snapshots."""
    return row.class_name.rpartition(".")[2] in _CLASSES


def find_progress(row: Connector, tasks: Sequence[Task]) -> Progress:
    """Return the progress from the database. Raises a 400 for a connector of another kind."""
    _require_snapshots(row)
    try:
        state, updated_ms = _read_state(row)
    except ConnectorError as error:
        return Progress(refusal=str(error))
    measured = find_measured(tasks, _GAUGE) if state.has_work else {}
    return Progress(state, _find_refusal(row), updated_ms, measured)


def find_measured(tasks: Sequence[Task], prefix: str) -> dict[str, float]:
    """Return what tasks currently measure: gauges without labels, by their names without the prefix."""
    now_ms = int(time.time() * 1000)
    metrics = metrics_of(tasks, now_ms)
    return {
        one.name.removeprefix(prefix): one.value for one in metrics if one.name.startswith(prefix) and not one.labels
    }


def send(row: Connector, kind: str, tables: Sequence[str], user: str) -> None:
    """Send the request to the task. Raises `Refusal`: a 400 for an invalid request, a 409 if the connector is not
    running, or could not continue from the committed state.
    """
    _require_snapshots(row)
    data = {COLLECTIONS: list(tables), "type": "incremental"}
    try:
        parse_request(kind, data)
    except ValueError as error:
        raise bad_request(f"{error}.") from error
    try:
        _read_state(row)
    except ConnectorError as error:
        raise ConnectError(409, str(error)) from error
    if refusal := _find_refusal(row):
        raise ConnectError(409, refusal)
    dispatch.command(SendSignal(row.name, kind, data), user=user)


def _require_snapshots(row: Connector) -> None:
    if not takes_snapshots(row):
        raise bad_request(f"Connector {row.name} does not support incremental snapshots: only PostgresSource does.")


def _read_state(row: Connector) -> tuple[IncrementalState, int]:
    """Return the committed state, and when it was read. Raises `ConnectorError` if it cannot be read."""
    partition = pack(incremental_partition(row.settings.get("topic.prefix", "")))
    offset = SourceOffset.objects.filter(connector=row.name, partition_key=partition_key(partition)).first()
    return (IncrementalState(), 0) if offset is None else (state_of(json.loads(offset.offset)), offset.updated_ms)


def _find_refusal(row: Connector) -> str:
    if row.settings.get("snapshot.mode") == "initial_only":
        return "With snapshot.mode=initial_only the connector does not stream, so it cannot read tables while it runs."
    if row.target != "RUNNING":
        return f"Connector {row.name} is not running. Resume it first."
    return ""
