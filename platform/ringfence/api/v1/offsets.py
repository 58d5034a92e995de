"""`…/offset-snapshots` and `…/offsets/preview`: keep source offsets, see what a change would do, undo one."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.routes import on_connector
from ringfence.access.verbs import Verb
from ringfence.api import offset_moves, offset_snapshots, reading, writing
from ringfence.api.v1.base import V1View
from ringfence.api.v1.listing import ListView, equal, since, until
from ringfence.history.models import OffsetSnapshot
from ringfence.http.errors import bad_request, not_found
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


class WhyShape(serializers.Serializer[Any]):
    why = serializers.CharField(required=False)


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
    """The kept offsets of a connector, newest first; POST keeps those of this moment."""

    access = {"GET": on_connector(Verb.VIEW), "POST": on_connector(Verb.OFFSETS).writing()}
    shape = SnapshotShape
    answers = {"POST": WholeSnapshotShape}
    takes = {"POST": WhyShape}
    codes = {"POST": 201}
    filters = {"user": equal("user"), "since": since("time_ms"), "until": until("time_ms")}
    orders = {"number": "number", "time_ms": "time_ms"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        return OffsetSnapshot.objects.filter(connector=reading.connector(path["name"]).name)

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [_serialize(row) for row in rows]

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        why = self.parse_fields("why").get("why", "asked for") if self.raw_body.strip() else "asked for"
        if not isinstance(why, str) or len(why) > 1000:
            raise bad_request("why must be a string of up to 1000 characters.")
        made = offset_snapshots.take(name, self.user_name, why)
        return Response(WholeSnapshotShape(_serialize(made)).data, status=201)


class Snapshot(V1View):
    access = {"GET": on_connector(Verb.VIEW)}
    shape = WholeSnapshotShape

    def get(self, request: Request, name: str, number: int) -> Response:
        self.parse_parameters()
        reading.connector(name)
        return Response(WholeSnapshotShape(_serialize(_snapshot(name, number))).data)


class PreviewEntryShape(serializers.Serializer[Any]):
    partition = serializers.JSONField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    changes = serializers.BooleanField()


class PreviewShape(serializers.Serializer[Any]):
    """`movable`: the connector is STOPPED, as a change needs it; its plugin has the last word."""

    connector = serializers.CharField()
    movable = serializers.BooleanField()
    offsets = PreviewEntryShape(many=True)


class PreviewRequestShape(serializers.Serializer[Any]):
    """One of: `offsets` as for PATCH …/offsets; `snapshot`, a number; `reset`, true."""

    offsets = EntryShape(many=True, required=False)
    snapshot = serializers.IntegerField(required=False)
    reset = serializers.BooleanField(required=False)


def _preview(row: Connector, changes: list[dict[str, Any]], current: list[dict[str, Any]]) -> dict[str, Any]:
    preview = offset_snapshots.preview(changes, current)
    return {"connector": row.name, "movable": offset_moves.movable(row), "offsets": preview}


class Preview(V1View):
    """What a change of offsets would do. Nothing is changed."""

    access = {"POST": on_connector(Verb.OFFSETS)}
    shape = PreviewShape
    takes = {"POST": PreviewRequestShape}

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_fields("offsets", "snapshot", "reset")
        if len(fields) != 1:
            raise bad_request("Exactly one of offsets, snapshot and reset is needed.")
        row = reading.connector(name)
        current = reading.offsets(name)["offsets"]
        match fields:
            case {"snapshot": int(number)} if not isinstance(number, bool) and number >= 0:
                changes = offset_snapshots.changes_to(_snapshot(name, number).entries, current)
            case {"reset": True}:
                changes = offset_snapshots.changes_to([], current)
            case {"offsets": _}:
                changes = writing.offsets_of(fields)
            case _:
                raise bad_request("snapshot must be the number of one, reset must be true.")
        return Response(PreviewShape(_preview(row, changes, current)).data)


class Restore(V1View):
    """Make the offsets what they were in this snapshot: the undo of any change since. Only on a stopped connector."""

    access = {"POST": on_connector(Verb.OFFSETS).writing()}
    shape = PreviewShape

    def post(self, request: Request, name: str, number: int) -> Response:
        self.parse_parameters()
        if self.raw_body.strip():
            self.parse_fields()
        row = reading.connector(name)
        _, changed = offset_moves.restore(name, _snapshot(name, number), self.user_name)
        shown = {"connector": name, "movable": offset_moves.movable(row), "offsets": changed}
        return Response(PreviewShape(shown).data)
