"""`…/offset-snapshots` and `…/offsets/preview`: take snapshots of source offsets, preview a change, undo one."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api import connector_reads, source_offsets
from ringfence.api.v1.base import V1View
from ringfence.api.v1.listing import ListView, equal, since, until
from ringfence.api.v1.request_fields import FlagField, IntegerField, OffsetsField, RequestShape, StringField
from ringfence.engine.leader.commands.offsets import OffsetEntry
from ringfence.history.models import OffsetSnapshot
from ringfence.http.errors import not_found
from ringfence.projection.models import Connector


class SnapshotShape(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    time_ms = serializers.IntegerField()
    user = serializers.CharField()
    why = serializers.CharField()
    partitions = serializers.IntegerField()


class EntryShape(serializers.Serializer[Any]):
    partition = serializers.JSONField()
    offset = serializers.JSONField(allow_null=True)


class WholeSnapshotShape(SnapshotShape):
    offsets = EntryShape(many=True)


class WhyShape(RequestShape):
    why = StringField(default="asked for", allow_blank=True, max_length=1000)


def _snapshot(name: str, number: int) -> OffsetSnapshot:
    row = OffsetSnapshot.objects.filter(connector=name, number=min(number, 2**31 - 1)).first()
    if row is None:
        raise not_found(f"Connector {name} has no offset snapshot {number}: GET …/offset-snapshots lists them")
    return row


def _serialize(row: OffsetSnapshot) -> dict[str, Any]:
    entries = row.entries
    fields = {field: getattr(row, field) for field in ("number", "time_ms", "user", "why")}
    return {**fields, "partitions": len(entries), "offsets": entries}


class Snapshots(ListView):
    """A connector's offset snapshots, newest first; POST takes one now."""

    access = {"GET": on_connector(Verb.VIEW), "POST": on_connector(Verb.OFFSETS).writing()}
    shape = SnapshotShape
    answers = {"POST": WholeSnapshotShape}
    takes = {"POST": WhyShape}
    codes = {"POST": 201}
    filters = {"user": equal("user"), "since": since("time_ms"), "until": until("time_ms")}
    orders = {"number": "number", "time_ms": "time_ms"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        return OffsetSnapshot.objects.filter(connector=connector_reads.connector(path["name"]).name)

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [_serialize(row) for row in rows]

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        snapshot = source_offsets.take_snapshot(name, self.user_name, self.parse_body(optional=True)["why"])
        return Response(WholeSnapshotShape(_serialize(snapshot)).data, status=201)


class Snapshot(V1View):
    access = {"GET": on_connector(Verb.VIEW)}
    shape = WholeSnapshotShape

    def get(self, request: Request, name: str, number: int) -> Response:
        self.parse_parameters()
        connector_reads.connector(name)
        return Response(WholeSnapshotShape(_serialize(_snapshot(name, number))).data)


class PreviewEntryShape(serializers.Serializer[Any]):
    partition = serializers.JSONField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    changes = serializers.BooleanField()


class PreviewShape(serializers.Serializer[Any]):
    """`movable`: whether the connector is STOPPED, as a change requires. Its plugin makes the final decision."""

    connector = serializers.CharField()
    movable = serializers.BooleanField()
    offsets = PreviewEntryShape(many=True)


class PreviewRequestShape(RequestShape):
    """One of: `offsets` as for PATCH …/offsets; `snapshot`, a number; `reset`, true."""

    offsets = OffsetsField(required=False)
    snapshot = IntegerField(required=False, min_value=0, refusal="must be the number of a snapshot")
    reset = FlagField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs) != 1:
            raise ValidationError("Exactly one of offsets, snapshot and reset is needed")
        return attrs

    def validate_reset(self, value: bool) -> bool:
        if not value:
            raise ValidationError("must be true, or left out")
        return value


def _preview(row: Connector, changes: list[OffsetEntry], current: list[dict[str, Any]]) -> dict[str, Any]:
    preview = source_offsets.preview(changes, current)
    return {"connector": row.name, "movable": source_offsets.movable(row), "offsets": preview}


class Preview(V1View):
    """The effect of a change of offsets. Nothing is changed."""

    access = {"POST": on_connector(Verb.OFFSETS)}
    shape = PreviewShape
    takes = {"POST": PreviewRequestShape}

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        row = connector_reads.connector(name)
        current = connector_reads.offsets(name)["offsets"]
        match fields:
            case {"snapshot": number}:
                changes = source_offsets.changes_to(_snapshot(name, number).entries, current)
            case {"offsets": entries}:
                changes = entries
            case _:
                changes = source_offsets.changes_to([], current)
        return Response(PreviewShape(_preview(row, changes, current)).data)


class NothingShape(RequestShape):
    """An object without fields."""


class Restore(V1View):
    """Restore the offsets of this snapshot, which undoes any change since. Only on a stopped connector."""

    access = {"POST": on_connector(Verb.OFFSETS).writing()}
    shape = PreviewShape
    takes = {"POST": NothingShape}

    def post(self, request: Request, name: str, number: int) -> Response:
        self.parse_parameters()
        self.parse_body(optional=True)
        row = connector_reads.connector(name)
        _, changed = source_offsets.restore(name, _snapshot(name, number), self.user_name)
        body = {"connector": name, "movable": source_offsets.movable(row), "offsets": changed}
        return Response(PreviewShape(body).data)
