"""Incremental snapshots of PostgresSource, for API and pages alike: how far one is, and what people ask for."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ringfence import dispatch
from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.postgres.incremental.requests import COLLECTIONS, parse_request
from ringfence.connectors.builtin.postgres.incremental.state import (
    IncrementalState,
    incremental_partition,
    state_of,
)
from ringfence.http.errors import ConnectError, bad_request
from ringfence.projection.models import Connector, SourceOffset, pack
from ringfence.projection.source_metrics import metrics_of
from ringfence.requests.commands import SendSignal

_CLASSES: Final = frozenset({"PostgresSource", "PostgresSourceConnector"})
_GAUGE: Final = "incremental_snapshot_"


@dataclass(frozen=True, slots=True)
class Progress:
    """state: what is committed. refusal: why nothing can be asked for now, "" where it can. measured: the task's
    gauges, by their names behind `incremental_snapshot_`.
    """

    state: IncrementalState = field(default_factory=IncrementalState)
    refusal: str = ""
    updated_ms: int = 0
    measured: dict[str, float] = field(default_factory=dict)

    @property
    def share(self) -> int:
        """Percent of the rows, as far as the database's estimate is right."""
        total = self.measured.get("rows_estimated", 0)
        return min(100, int(100 * self.measured.get("rows", 0) / total)) if total else 0


def takes_snapshots(row: Connector) -> bool:
    """Whether the connector is one that reads tables again."""
    return row.class_name.rpartition(".")[2] in _CLASSES


def find_progress(row: Connector, tasks: Sequence[Any]) -> Progress:
    """As the database has it. A 400 for a connector of another kind."""
    if not takes_snapshots(row):
        raise bad_request(f"Connector {row.name} has no incremental snapshots: only PostgresSource has.")
    partition = pack(incremental_partition(row.settings.get("topic.prefix", "")))
    found = SourceOffset.objects.filter(connector=row.name, partition=partition).first()
    try:
        state = state_of(json.loads(found.offset)) if found is not None else IncrementalState()
    except (ConnectorError, ValueError) as error:
        return Progress(refusal=str(error))
    measured = {
        one.name.removeprefix(_GAUGE): one.value
        for one in metrics_of(tasks, int(time.time() * 1000))
        if one.name.startswith(_GAUGE) and not one.labels
    }
    return Progress(state, _refusal(row), found.updated_ms if found is not None else 0, measured)


def _refusal(row: Connector) -> str:
    if row.settings.get("snapshot.mode") == "initial_only":
        return "With snapshot.mode=initial_only there is no stream beside which tables could be read."
    if row.target != "RUNNING":
        return f"Connector {row.name} is not running. Resume it first."
    return ""


def send(row: Connector, kind: str, tables: Sequence[str], user: str) -> None:
    """Have the task carry it out. Raises `Refused`, a 400 for what means nothing, and a 409 where it is not running."""
    if not takes_snapshots(row):
        raise bad_request(f"Connector {row.name} has no incremental snapshots: only PostgresSource has.")
    data = {COLLECTIONS: list(tables), "type": "incremental"}
    try:
        parse_request(kind, data)
    except ValueError as error:
        raise bad_request(f"{error}.") from error
    if refusal := _refusal(row):
        raise ConnectError(409, refusal)
    dispatch.command(SendSignal(row.name, kind, data), user=user)
