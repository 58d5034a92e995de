"""`…/offset-snapshots` and `…/offsets/preview`, and each change of source offsets, for API and pages: first a snapshot,
so that it can be undone, then the leader's command.

A connector with initial source offsets (KIP-995), or without those that are stored under its name, is created STOPPED,
then its offsets are altered, and only then does it get the requested state: no task ever starts without the offsets.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import on_connector
from ringfence.access.principal import Principal, Verb
from ringfence.api import connector_reads, connector_writes
from ringfence.api.v1.base import ListView, V1View, equal, since, until
from ringfence.api.v1.request_fields import FlagField, IntegerField, OffsetsField, RequestShape, StringField
from ringfence.dispatch import Refusal
from ringfence.engine.leader import commands
from ringfence.engine.leader.commands import AlterOffsets, ResetOffsets
from ringfence.engine.leader.commands.offsets import OffsetCheck, OffsetEntry
from ringfence.fencing.clock import epoch_ms
from ringfence.history.models import OffsetSnapshot
from ringfence.http.errors import ConnectError, not_found
from ringfence.projection.models import Connector, pack
from ringfence.requests.request import Command

Entry = Mapping[str, Any]
KEPT = 100
_ATTEMPTS = 5


def take_snapshot(connector: str, user: str, why: str) -> OffsetSnapshot:
    """Take a snapshot of the connector's offsets, and delete the oldest beyond KEPT. Raises the errors
    of reading offsets.
    """
    offsets = connector_reads.offsets(connector)["offsets"]
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _add(connector, user, why, offsets)
        except IntegrityError:  # another process has just taken a snapshot with this number
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError


def _add(connector: str, user: str, why: str, offsets: list[dict[str, Any]]) -> OffsetSnapshot:
    with transaction.atomic():
        rows = OffsetSnapshot.objects.filter(connector=connector)
        number = (rows.aggregate(Max("number"))["number__max"] or 0) + 1
        snapshot = OffsetSnapshot.objects.create(
            connector=connector,
            number=number,
            time_ms=epoch_ms(),
            user=user,
            why=why,
            offsets=json.dumps(offsets),
        )
        rows.filter(number__lte=number - KEPT).delete()
    return snapshot


def snapshot_before_change(connector: str, user: str, why: str) -> OffsetSnapshot | None:
    """Take a snapshot before a change. Returns None if the connector is not stopped, because the leader
    refuses then.
    """
    stopped = Connector.objects.filter(name=connector, known=True, target="STOPPED").exists()
    return take_snapshot(connector, user, why) if stopped else None


def changes_to(target: Iterable[Entry], current: Iterable[Entry]) -> list[OffsetEntry]:
    """Return the entries that turn `current` into exactly `target`, without those that are equal."""
    now = {pack(entry["partition"]): entry for entry in current}
    then = {pack(entry["partition"]): entry for entry in target}
    changed = [
        {"partition": entry["partition"], "offset": entry["offset"]}
        for key, entry in then.items()
        if key not in now or pack(now[key]["offset"]) != pack(entry["offset"])
    ]
    return changed + [
        {"partition": entry["partition"], "offset": None} for key, entry in now.items() if key not in then
    ]


def preview(changes: Iterable[Entry], current: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return each partition in the changes with its current and new offset; null for none."""
    now = {pack(entry["partition"]): entry["offset"] for entry in current}
    return [
        {
            "partition": entry["partition"],
            "before": now.get(pack(entry["partition"])),
            "after": entry["offset"],
            "changes": pack(now.get(pack(entry["partition"]))) != pack(entry["offset"]),
        }
        for entry in changes
    ]


Entries = Sequence[OffsetEntry]


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """The result. snapshot: the number of the one taken before, None if there is none.

    checked: the connector's plugin has validated the offsets.
    """

    value: object
    snapshot: int | None

    @property
    def checked(self) -> bool:
        return isinstance(self.value, dict) and bool(self.value.get("checked"))

    def message(self, otherwise: str) -> str:
        """Return the leader's message about it."""
        match self.value:
            case {"message": str(message)} if message:
                return message
            case str(message) if message:
                return message
            case _:
                return otherwise


def movable(row: Connector) -> bool:
    """Return whether offsets may be changed now, by the database's state. The leader makes the final decision."""
    return row.target == "STOPPED" and not row.fencing and row.task_count == 0


def alter(name: str, entries: Entries, user: str, why: str = "before the offsets were changed") -> OffsetMove:
    """Set and delete offsets; those without an entry stay. Raises `Refusal`."""
    snapshot = snapshot_before_change(name, user, why)
    result = dispatch.command(AlterOffsets(name, list(entries)), user=user)
    return OffsetMove(result.value, snapshot.number if snapshot else None)


def reset(name: str, user: str) -> OffsetMove:
    """Delete every offset. Raises `Refusal`."""
    snapshot = snapshot_before_change(name, user, "before the offsets were reset")
    result = dispatch.command(ResetOffsets(name), user=user)
    return OffsetMove(result.value, snapshot.number if snapshot else None)


def restore(name: str, snapshot: OffsetSnapshot, user: str) -> tuple[OffsetMove, list[dict[str, Any]]]:
    """Restore the offsets of a snapshot. Returns the changes, too, in the format of a preview. Raises `Refusal`."""
    before = take_snapshot(name, user, f"before snapshot {snapshot.number} was restored")
    changes = changes_to(snapshot.entries, before.entries)
    value = dispatch.command(AlterOffsets(name, changes), user=user).value if changes else None
    return OffsetMove(value, before.number), preview(changes, before.entries)


_COMMANDS: Mapping[str, Callable[[str], Command[None]]] = {"RUNNING": commands.Resume, "PAUSED": commands.Pause}


def create_at(name: str, config: Mapping[str, str], offsets: list[OffsetEntry], state: str, by: Principal) -> None:
    """offsets: as `writing.offsets_of` returns them. Raises `ConnectError` and `Refusal`."""
    _create_and_move(name, config, state, by, commands.AlterOffsets(name, offsets))


def create_fresh(name: str, config: Mapping[str, str], state: str, by: Principal) -> None:
    """Create a connector after deleting every offset of an earlier connector with this name."""
    _create_and_move(name, config, state, by, commands.ResetOffsets(name))


def _create_and_move(
    name: str, config: Mapping[str, str], state: str, by: Principal, move: Command[OffsetCheck]
) -> None:
    connector_writes.create(name, config, "STOPPED", by)
    _move(name, move, by.name)
    if state in _COMMANDS:
        dispatch.command(_COMMANDS[state](name), user=by.name)


def _move(name: str, move: Command[OffsetCheck], user: str) -> None:
    """Alter the offsets. If they are refused, delete the connector again; if the outcome is unknown,
    leave it STOPPED.
    """
    try:
        dispatch.command(move, user=user)
    except Refusal as refused:
        if refused.status >= 500 and refused.status != 503:
            text = f"Connector {name} is created and STOPPED; whether it has its offsets is unknown: {refused.message}"
            raise ConnectError(refused.status, text) from refused
        dispatch.command(commands.Delete(name), user=user)
        text = f"Connector {name} was not created: its offsets were refused. {refused.message}"
        raise ConnectError(refused.status, text) from refused


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
        snapshot = take_snapshot(name, self.user_name, self.parse_body(optional=True)["why"])
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
    differences = preview(changes, current)
    return {"connector": row.name, "movable": movable(row), "offsets": differences}


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
                changes = changes_to(_snapshot(name, number).entries, current)
            case {"offsets": entries}:
                changes = entries
            case _:
                changes = changes_to([], current)
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
        _, changed = restore(name, _snapshot(name, number), self.user_name)
        body = {"connector": name, "movable": movable(row), "offsets": changed}
        return Response(PreviewShape(body).data)
