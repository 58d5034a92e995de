"""`/api/v1/share-groups`: the share groups of the cluster (KIP-932), queried from Kafka now, and actions on them.

A group that a connector of this cluster reads is changed together with the connector's ledger, while the connector is
stopped.
"""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import somewhere
from ringfence.access.principal import Verb
from ringfence.api import share_groups
from ringfence.api.share_groups import ArchivedRecords, Foreseen, MoveCounts, Readers, find_readers
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import (
    FlagField,
    IntegerField,
    JsonField,
    ListField,
    MapField,
    QueryShape,
    ReasonField,
    RequestShape,
    StringField,
)
from ringfence.engine.leader.commands.offsets import AlterShareGroupOffsets, Move
from ringfence.fencing.share.group_moves import RequestedStart

_LONGEST_NAME, _MOST = 249, 10_000


class ShareGroupSummaryShape(serializers.Serializer[Any]):
    """`connectors`: those of this cluster that read it. `lag`: the broker's count, null if unknown."""

    group = serializers.CharField()
    connectors = serializers.ListField(child=serializers.CharField())
    state = serializers.CharField()
    members = serializers.IntegerField()
    topics = serializers.ListField(child=serializers.CharField())
    partitions = serializers.IntegerField(allow_null=True)
    lag = serializers.IntegerField(allow_null=True)
    problem = serializers.CharField(allow_blank=True)


class ShareGroupListShape(serializers.Serializer[Any]):
    results = ShareGroupSummaryShape(many=True)


class ShareAssignedShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    partition = serializers.IntegerField()


class ShareMemberShape(serializers.Serializer[Any]):
    member = serializers.CharField()
    client = serializers.CharField()
    host = serializers.CharField()
    epoch = serializers.IntegerField()
    topics = serializers.ListField(child=serializers.CharField())
    assigned = ShareAssignedShape(many=True)


class SharePartitionShape(serializers.Serializer[Any]):
    """`start`: the share partition's start offset (SPSO), -1 if the group has not started. `first`, `stable`, `end`:
    the partition's own, -1 if the topic does not exist. `lag`: the broker's count, -1 if unknown.
    """

    topic = serializers.CharField()
    partition = serializers.IntegerField()
    start = serializers.IntegerField()
    lag = serializers.IntegerField()
    first = serializers.IntegerField()
    stable = serializers.IntegerField()
    end = serializers.IntegerField()
    problem = serializers.CharField(allow_blank=True)


class ShareSettingShape(serializers.Serializer[Any]):
    """`own`: set for this group; otherwise the broker's."""

    name = serializers.CharField()
    value = serializers.CharField(allow_blank=True)
    own = serializers.BooleanField()


class ShareGroupShape(serializers.Serializer[Any]):
    group = serializers.CharField()
    connectors = serializers.ListField(child=serializers.CharField())
    state = serializers.CharField()
    epoch = serializers.IntegerField()
    members = ShareMemberShape(many=True)
    partitions = SharePartitionShape(many=True)
    settings = ShareSettingShape(many=True)


class ShareLedgerPartitionShape(serializers.Serializer[Any]):
    """The connector's ledger: everything before `low` is done, and so is `done`, [first, last] each."""

    topic = serializers.CharField()
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    low = serializers.IntegerField()
    done = serializers.ListField(child=serializers.ListField(child=serializers.IntegerField()))


class ShareGroupOffsetsShape(serializers.Serializer[Any]):
    """`ledger`: of the connector that reads the group, which decides; [] for other groups."""

    group = serializers.CharField()
    ledger = ShareLedgerPartitionShape(many=True)
    partitions = SharePartitionShape(many=True)


class ShareMovedPartitionShape(serializers.Serializer[Any]):
    """`before`, `after`: where the group starts; -1: it has not started. `again`: offsets that are processed again;
    `skipped`: those that never are. `forgets`: the group has no state for the partition afterwards. `sure`: the
    partition's leader delivers from the new offset on; otherwise it may first deliver some records from the old one.
    """

    topic = serializers.CharField()
    partition = serializers.IntegerField()
    first = serializers.IntegerField()
    end = serializers.IntegerField()
    before = serializers.IntegerField()
    after = serializers.IntegerField()
    forgets = serializers.BooleanField()
    again = serializers.IntegerField()
    skipped = serializers.IntegerField()
    sure = serializers.BooleanField()


class ShareMovedShape(serializers.Serializer[Any]):
    """`refusal`: why it is not possible now, "" if it is; `members`: the members of the group."""

    group = serializers.CharField()
    connectors = serializers.ListField(child=serializers.CharField())
    dry_run = serializers.BooleanField()
    refusal = serializers.CharField(allow_blank=True)
    members = ShareMemberShape(many=True)
    again = serializers.IntegerField()
    skipped = serializers.IntegerField()
    partitions = ShareMovedPartitionShape(many=True)


class ShareWaitingPartitionShape(serializers.Serializer[Any]):
    """`archived`: records that were delivered as often as allowed. `waiting`: offsets that the group no longer delivers
    and that are not done in the connector's ledger, [first, last] each; some may hold no record (transaction markers).
    """

    topic = serializers.CharField()
    partition = serializers.IntegerField()
    archived = serializers.IntegerField()
    waiting = serializers.ListField(child=serializers.ListField(child=serializers.IntegerField()))


class ShareArchivedShape(serializers.Serializer[Any]):
    """`waiting`: of all partitions; `refusal`: why they cannot be processed now, "" if they can. `left_out`: partitions
    that were not read.
    """

    group = serializers.CharField()
    connectors = serializers.ListField(child=serializers.CharField())
    dry_run = serializers.BooleanField()
    refusal = serializers.CharField(allow_blank=True)
    waiting = serializers.IntegerField()
    left_out = serializers.IntegerField()
    partitions = ShareWaitingPartitionShape(many=True)


class ShareDeleteQueryShape(QueryShape):
    """`dry_run`: only report the effect."""

    reason = ReasonField()
    dry_run = FlagField(default=False)


class ShareDeleteOffsetsQueryShape(ShareDeleteQueryShape):
    topic = StringField(trim_whitespace=False, max_length=_LONGEST_NAME)


class ShareProcessShape(RequestShape):
    """Without `topic`: all topics of the group. `dry_run`: only report the effect."""

    reason = ReasonField()
    topic = StringField(default="", trim_whitespace=False, max_length=_LONGEST_NAME)
    dry_run = FlagField(default=False)


class ShareAlterShape(RequestShape):
    """`to`: "earliest", "latest", {"offset": n} or {"time_ms": n}. Without `topic`: all topics of the group; without
    `partitions`: all of the topic. `dry_run`: only report the effect.
    """

    to = JsonField()
    topic = StringField(required=False, trim_whitespace=False, max_length=_LONGEST_NAME)
    partitions = ListField(
        child=IntegerField(min_value=0, max_value=2**31 - 1), required=False, min_length=1, max_length=_MOST
    )
    reason = ReasonField()
    dry_run = FlagField(default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "partitions" in attrs and "topic" not in attrs:
            raise ValidationError("The partitions are those of a topic: give topic, too")
        try:
            return {**attrs, "to": RequestedStart.parse(attrs["to"]).as_json()}
        except ValueError as error:
            raise ValidationError({"to": [str(error).removeprefix("to ")]}) from error


class ShareConfigureShape(RequestShape):
    """`settings`: names with or without the prefix `share.`; null restores the broker's value."""

    settings = MapField(
        child=StringField(
            allow_null=True, allow_blank=True, trim_whitespace=False, refusal="must be a string, or null"
        ),
        allow_empty=False,
        refusal="must be an object of names and values, null for the broker's",
    )
    reason = ReasonField()


class ShareSettingsShape(serializers.Serializer[Any]):
    group = serializers.CharField()
    settings = ShareSettingShape(many=True)


class ShareGroupView(V1View):
    """What the views of one group share."""

    def find_readers(self, name: str, verb: Verb = Verb.VIEW) -> Readers:
        """Return the readers. Raises `Forbidden` if the permission is not granted on the group."""
        readers = share_groups.readers_now()
        readers.authorise(self.http_request, verb, name)
        return readers

    def find_readers_to_act(self, name: str, *, offsets: bool = True) -> Readers:
        """Return the readers for an action, which is written to the audit trail."""
        readers = share_groups.readers_now()
        readers.authorise_act(self.http_request, name, offsets=offsets)
        return readers

    def move(self, name: str, act: Move, fields: Mapping[str, Any]) -> Response:
        """Report the action's effect, or carry it out."""
        reason, dry_run = fields["reason"], fields["dry_run"]
        readers = self.find_readers_to_act(name)
        self.tell_reason(f"{reason} (dry run)" if dry_run else reason)
        if dry_run:
            foreseen = share_groups.foresee(readers, name, act)
        else:
            foreseen = share_groups.carry_out(self.http_request, readers, name, act, reason)
        return Response(ShareMovedShape(_serialize_moves(name, foreseen, dry_run)).data)


class ShareGroups(V1View):
    """Every share group that the caller may see; a grant's pattern matches share groups by name, like connectors."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = ShareGroupListShape

    def get(self, request: Request) -> Response:
        self.parse_parameters()
        answer = share_groups.ask_for_list()
        readers = find_readers(answer["worker_group"])
        who = self.principal
        rows = [
            {**each, "connectors": who.filter_names(readers.of(each["group"]))}
            for each in answer["groups"]
            if readers.may(who, Verb.VIEW, each["group"])
        ]
        return Response(ShareGroupListShape({"results": rows}).data)


class ShareGroup(ShareGroupView):
    """One share group: its members, its start in each partition, and its settings. DELETE deletes it, and the offsets
    of the connector that reads it.
    """

    access = {"GET": somewhere(Verb.VIEW), "DELETE": somewhere(Verb.SHARE_GROUPS).writing()}
    shape = ShareGroupShape
    answers = {"DELETE": ShareMovedShape}
    queries = {"DELETE": ShareDeleteQueryShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        readers = self.find_readers(name)
        group = share_groups.ask_for_one(name)
        return Response(ShareGroupShape({**group, "connectors": self.principal.filter_names(readers.of(name))}).data)

    def delete(self, request: Request, name: str) -> Response:
        return self.move(name, {"kind": "delete"}, self.parse_query())


class ShareGroupOffsets(ShareGroupView):
    """Where a group starts. PATCH moves its start, DELETE deletes its offsets in `topic`. Both are refused while the
    group has members. For a connector's group they also change the connector's ledger, while the connector is stopped.
    """

    access = {
        "GET": somewhere(Verb.VIEW),
        "PATCH": somewhere(Verb.SHARE_GROUPS).writing(),
        "DELETE": somewhere(Verb.SHARE_GROUPS).writing(),
    }
    shape = ShareGroupOffsetsShape
    takes = {"PATCH": ShareAlterShape}
    answers = {"PATCH": ShareMovedShape, "DELETE": ShareMovedShape}
    queries = {"DELETE": ShareDeleteOffsetsQueryShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        readers = self.find_readers(name)
        group = share_groups.ask_for_one(name)
        ledger = [
            {**place._asdict(), "topic": state.topic, "low": state.low, "done": state.done.pairs()}
            for place, state in share_groups.ledger_of(self.principal.filter_names(readers.of(name))).items()
        ]
        body = {"group": name, "ledger": ledger, "partitions": group["partitions"]}
        return Response(ShareGroupOffsetsShape(body).data)

    def patch(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        act: AlterShareGroupOffsets = {
            "kind": "alter",
            "to": fields["to"],
            "topics": [fields["topic"]] if "topic" in fields else None,
            "partitions": list(dict.fromkeys(fields["partitions"])) if "partitions" in fields else None,
        }
        return self.move(name, act, fields)

    def delete(self, request: Request, name: str) -> Response:
        query = self.parse_query()
        return self.move(name, {"kind": "delete_offsets", "topics": [query["topic"]]}, query)


class ShareGroupArchived(ShareGroupView):
    """Records that the group no longer delivers. POST has the tasks of the connector that reads it process those that
    are not done in its ledger, or make them dead letters as `share.exhausted` specifies, without waiting for
    `share.sweep.after.ms`.
    """

    access = {"GET": somewhere(Verb.VIEW), "POST": somewhere(Verb.SHARE_GROUPS).writing()}
    shape = ShareArchivedShape
    takes = {"POST": ShareProcessShape}
    answers = {"POST": ShareArchivedShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        backlog = share_groups.find_archived(self._only_visible(name, self.find_readers(name)), name)
        return Response(ShareArchivedShape(_serialize_archived(name, backlog, True)).data)

    def _only_visible(self, name: str, readers: Readers) -> Readers:
        """Leave out connectors that the caller may not see."""
        visible = self.principal.filter_names(readers.of(name))
        return Readers(readers.worker_group, {**readers.by_group, name: visible})

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        reason, topic, dry_run = fields["reason"], fields["topic"], fields["dry_run"]
        readers = self.find_readers_to_act(name, offsets=False)
        self.tell_reason(f"{reason} (dry run)" if dry_run else reason)
        if dry_run:
            backlog = share_groups.find_archived(readers, name).only(topic)
        else:
            backlog = share_groups.process_now(self.http_request, readers, name, reason, topic)
        return Response(ShareArchivedShape(_serialize_archived(name, backlog, dry_run)).data, 200 if dry_run else 202)


class ShareGroupSettings(ShareGroupView):
    """The group's settings. A connector sets those of its own group that its `share.*` settings name."""

    access = {"GET": somewhere(Verb.VIEW), "PATCH": somewhere(Verb.SHARE_GROUPS).writing()}
    shape = ShareSettingsShape
    takes = {"PATCH": ShareConfigureShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        self.find_readers(name)
        return Response(
            ShareSettingsShape({"group": name, "settings": share_groups.ask_for_one(name)["settings"]}).data
        )

    def patch(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        reason, settings = fields["reason"], fields["settings"]
        readers = self.find_readers_to_act(name, offsets=False)
        self.tell_reason(reason)
        after = share_groups.configure(self.http_request, readers, name, settings, reason)
        return Response(ShareSettingsShape({"group": name, "settings": after}).data)


def _serialize_moves(name: str, foreseen: Foreseen, dry_run: bool) -> dict[str, Any]:
    return {
        "group": name,
        "connectors": foreseen.connectors,
        "dry_run": dry_run,
        "refusal": foreseen.refusal,
        "members": foreseen.members,
        "again": foreseen.again,
        "skipped": foreseen.skipped,
        "partitions": [_serialize_partition(one) for one in foreseen.moves],
    }


def _serialize_archived(name: str, backlog: ArchivedRecords, dry_run: bool) -> dict[str, Any]:
    return {
        "group": name,
        "connectors": backlog.connectors,
        "dry_run": dry_run,
        "refusal": backlog.refusal,
        "waiting": backlog.waiting,
        "left_out": backlog.left_out,
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.place.partition,
                "archived": one.archived,
                "waiting": one.offsets.pairs(),
            }
            for one in backlog.partitions
        ],
    }


def _serialize_partition(one: MoveCounts) -> dict[str, Any]:
    move = one.move
    return {
        "topic": move.topic,
        "partition": move.partition,
        "first": move.first,
        "end": move.end,
        "before": move.start,
        "after": move.to,
        "forgets": move.forgets,
        "again": one.again,
        "skipped": one.skipped,
        "sure": one.sure,
    }
