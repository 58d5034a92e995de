"""`…/incremental-snapshot`: have PostgresSource read tables again while it streams, and follow the progress.

For the pages, also the initial snapshot: its committed tables and ranges.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api import connector_reads
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import ListField, OneOfField, QueryShape, RequestShape, StringField
from ringfence.connectors.api import ConnectorError, SourcePartition
from ringfence.connectors.api import SourceOffset as Offset
from ringfence.connectors.sdk.features import IncrementalProgress, Snapshots, TableProgress, all_features, features_of
from ringfence.connectors.sdk.snapshot_signals import COLLECTIONS, EXECUTE, PAUSE, RESUME, STOP, parse_request
from ringfence.engine.leader.commands import SendSignal
from ringfence.fencing.clock import epoch_ms
from ringfence.http.errors import ConnectError, bad_request
from ringfence.projection import offset_rows
from ringfence.projection.models import Connector, SourceOffset, Task, pack, partition_key
from ringfence.projection.offset_rows import TooManyOffsets
from ringfence.projection.progress_reports import metrics_of

_GAUGE: Final = "incremental_snapshot_"


@dataclass(frozen=True, slots=True)
class Progress:
    """state: the committed one. refusal: why nothing can be requested now, "" if it can. measured: the task's gauges,
    by their names without the prefix `incremental_snapshot_`, during a snapshot.
    """

    state: IncrementalProgress
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
    return features_of(row.class_name).snapshots is not None


def find_progress(row: Connector, tasks: Sequence[Task]) -> Progress:
    """Return the progress from the database. Raises a 400 for a connector of another kind."""
    snapshots = _require_snapshots(row)
    try:
        state, updated_ms = _read_state(row, snapshots)
    except ConnectorError as error:
        return Progress(snapshots.read_incremental(None), str(error))
    measured = find_measured(tasks, _GAUGE) if state.has_work else {}
    return Progress(state, _find_refusal(row, snapshots), updated_ms, measured)


def find_measured(tasks: Sequence[Task], prefix: str) -> dict[str, float]:
    """Return what tasks currently measure: gauges without labels, by their names without the prefix."""
    now_ms = epoch_ms()
    metrics = metrics_of(tasks, now_ms)
    return {
        one.name.removeprefix(prefix): one.value for one in metrics if one.name.startswith(prefix) and not one.labels
    }


def send(row: Connector, kind: str, tables: Sequence[str], user: str) -> None:
    """Send the request to the task. Raises `Refusal`: a 400 for an invalid request, a 409 if the connector is not
    running, or could not continue from the committed state.
    """
    snapshots = _require_snapshots(row)
    data = {COLLECTIONS: list(tables), "type": "incremental"}
    try:
        parse_request(kind, data)
    except ValueError as error:
        raise bad_request(f"{error}.") from error
    try:
        _read_state(row, snapshots)
    except ConnectorError as error:
        raise ConnectError(409, str(error)) from error
    if refusal := _find_refusal(row, snapshots):
        raise ConnectError(409, refusal)
    dispatch.command(SendSignal(row.name, kind, data), user=user)


def _require_snapshots(row: Connector) -> Snapshots:
    snapshots = features_of(row.class_name).snapshots
    if snapshots is None:
        others = ", ".join(name for name, features in all_features().items() if features.snapshots is not None)
        raise bad_request(f"Connector {row.name} does not support incremental snapshots: only {others} does.")
    return snapshots


def _read_state(row: Connector, snapshots: Snapshots) -> tuple[IncrementalProgress, int]:
    """Return the committed state, and when it was read. Raises `ConnectorError` if it cannot be read."""
    partition = pack(snapshots.incremental_partition(row.settings))
    offset = SourceOffset.objects.filter(connector=row.name, partition_key=partition_key(partition)).first()
    if offset is None:
        return snapshots.read_incremental(None), 0
    return snapshots.read_incremental(json.loads(offset.offset)), offset.updated_ms


def _find_refusal(row: Connector, snapshots: Snapshots) -> str:
    if refusal := snapshots.find_refusal(row.settings):
        return refusal
    if row.target != "RUNNING":
        return f"Connector {row.name} is not running. Resume it first."
    return ""


_INITIAL_GAUGE = "snapshot_"


@dataclass(frozen=True, slots=True)
class InitialSnapshot:
    """measured: the first task's gauges, by their names without the prefix `snapshot_`, during the snapshot. problem:
    why the progress is unknown, "" if it is known.
    """

    began_ms: int = 0
    tables: tuple[TableProgress, ...] = ()
    measured: dict[str, float] = field(default_factory=dict)
    problem: str = ""

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.tables)

    @property
    def ranges(self) -> int:
        return sum(one.ranges for one in self.tables)

    @property
    def ranges_read(self) -> int:
        return sum(one.ranges_read for one in self.tables)

    @property
    def finished(self) -> bool:
        return not self.problem and self.ranges == self.ranges_read

    @property
    def percent(self) -> int | None:
        """Percentage of the rows, by the database's estimate; None without one."""
        left = sum(max(0, one.rows_estimated - one.rows) for one in self.tables if not one.finished)
        return percent_of(self.rows, left)


def find_initial_snapshot(row: Connector, tasks: Sequence[Task]) -> InitialSnapshot | None:
    """Return the snapshot; None if none was planned: with snapshot.mode=no_data, or not yet."""
    snapshots = features_of(row.class_name).snapshots
    if snapshots is None:
        return None
    try:
        committed = dict(offset_rows.read(row.name))
    except TooManyOffsets as error:
        return InitialSnapshot(problem=str(error))

    def read(partition: SourcePartition) -> Offset | None:
        offset = committed.get(pack(partition))
        return None if offset is None else json.loads(offset)

    try:
        progress = snapshots.read_initial(row.settings, read)
    except ConnectorError as error:
        return InitialSnapshot(problem=str(error))
    if progress is None:
        return None
    unfinished_first = tuple(sorted(progress.tables, key=lambda one: one.finished))
    done = all(one.finished for one in progress.tables)
    return InitialSnapshot(progress.began_ms, unfinished_first, {} if done else find_measured(tasks, _INITIAL_GAUGE))


_ACTIONS: Final = {"execute": EXECUTE, "pause": PAUSE, "resume": RESUME}


class TableShape(serializers.Serializer[Any]):
    """`rows_estimated`: by the database."""

    table = serializers.CharField(source="name")
    rows_estimated = serializers.IntegerField(source="rows")


class IncrementalSnapshotShape(serializers.Serializer[Any]):
    """`tables`: the remaining ones, of which the first is being read, with `table_rows` rows so far; `rows`: of all
    tables, `percent` of them by the database's estimate; `note`: the result of the newest request; `refusal`: why
    nothing can be requested now, empty if it can.
    """

    connector = serializers.CharField()
    tables = TableShape(many=True)
    table_rows = serializers.IntegerField()
    rows = serializers.IntegerField()
    percent = serializers.IntegerField(allow_null=True)
    paused = serializers.BooleanField()
    rows_per_second = serializers.FloatField(allow_null=True)
    seconds_left = serializers.FloatField(allow_null=True)
    note = serializers.CharField(allow_blank=True)
    refusal = serializers.CharField(allow_blank=True)
    updated_ms = serializers.IntegerField()


class IncrementalSnapshotRequestShape(RequestShape):
    """`tables`: with `execute`, regular expressions for schema.table."""

    action = OneOfField(choices=list(_ACTIONS), refusal=f"must be one of {', '.join(_ACTIONS)}. DELETE stops")
    tables = ListField(
        child=StringField(trim_whitespace=False, allow_blank=True),
        default=list,
        refusal="must be a list of regular expressions for schema.table",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["tables"] and attrs["action"] != "execute":
            raise ValidationError(f"tables belong to execute: {attrs['action']} is for all tables, leave tables out")
        return attrs


class StopQueryShape(QueryShape):
    table = StringField(default="", allow_blank=True, trim_whitespace=False)


class IncrementalSnapshot(V1View):
    """Tables that are read again in chunks while streaming continues. POST requests, pauses or resumes it; DELETE stops
    it, or removes `table`. A request is kept until the connector's task has carried it out, once.
    """

    access = {
        "GET": on_connector(Verb.VIEW),
        "POST": on_connector(Verb.OFFSETS).writing(),
        "DELETE": on_connector(Verb.OFFSETS).writing(),
    }
    shape = IncrementalSnapshotShape
    takes = {"POST": IncrementalSnapshotRequestShape}
    codes = {"POST": 202, "DELETE": 202}
    queries = {"DELETE": StopQueryShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        return Response(self._serialize(name))

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        action, tables = fields["action"], fields["tables"]
        row = connector_reads.connector(name)
        self.tell_reason(f"{action} {', '.join(tables)}"[:500].strip())
        send(row, _ACTIONS[action], tables, self.user_name)
        return Response(self._serialize(name), status=202)

    def delete(self, request: Request, name: str) -> Response:
        table = self.parse_query()["table"]
        row = connector_reads.connector(name)
        self.tell_reason(f"stop {table}"[:500].strip())
        send(row, STOP, [table] if table else [], self.user_name)
        return Response(self._serialize(name), status=202)

    def _serialize(self, name: str) -> Any:
        progress = find_progress(connector_reads.connector(name), connector_reads.tasks(name))
        state, measured = progress.state, progress.measured
        body = {
            "connector": name,
            "tables": state.queue,
            "table_rows": state.rows,
            "rows": state.total,
            "percent": progress.percent,
            "paused": state.paused,
            "rows_per_second": measured.get("rows_per_second"),
            "seconds_left": measured.get("left"),
            "note": state.note,
            "refusal": progress.refusal,
            "updated_ms": progress.updated_ms,
        }
        return IncrementalSnapshotShape(body).data
