"""`…/incremental-snapshot`: have PostgresSource read tables again while it streams, and follow the progress."""

from typing import Any, Final

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api import connector_reads, snapshots
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import ListField, OneOfField, QueryShape, RequestShape, StringField
from ringfence.connectors.sdk.snapshot_signals import EXECUTE, PAUSE, RESUME, STOP

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
        snapshots.send(row, _ACTIONS[action], tables, self.user_name)
        return Response(self._serialize(name), status=202)

    def delete(self, request: Request, name: str) -> Response:
        table = self.parse_query()["table"]
        row = connector_reads.connector(name)
        self.tell_reason(f"stop {table}"[:500].strip())
        snapshots.send(row, STOP, [table] if table else [], self.user_name)
        return Response(self._serialize(name), status=202)

    def _serialize(self, name: str) -> Any:
        progress = snapshots.find_progress(connector_reads.connector(name), connector_reads.tasks(name))
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
