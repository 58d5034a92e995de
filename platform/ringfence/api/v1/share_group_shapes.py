"""The input and output of `/api/v1/share-groups`."""

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

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
