"""The input and output of `/api/v1/alerts`."""

from typing import Any

from rest_framework import serializers

from ringfence.alerts import rule_editing
from ringfence.alerts.conditions import Kind
from ringfence.alerts.senders import CHANNELS
from ringfence.api.v1.request_fields import (
    FlagField,
    IntegerField,
    ListField,
    OneOfField,
    QueryShape,
    RequestShape,
    StringField,
)


class RuleShape(RequestShape):
    """`kind`: failed, stalled, bad-records, open-transaction, source-metric, fencing-failed, topic-lost,
    foreign-record, no-leader; `seconds`: how long it must last."""

    id = serializers.IntegerField(read_only=True)
    name = StringField(max_length=100)
    kind = OneOfField(choices=[kind.value for kind in Kind])
    pattern = StringField(max_length=300, default="*")
    seconds = IntegerField(min_value=0, max_value=rule_editing.LONGEST_SECONDS, default=60)
    enabled = FlagField(default=True)
    destinations = ListField(child=StringField(), default=list, refusal="must be a list of their names")


class DestinationShape(RequestShape):
    """`kind`: webhook, slack, teams, pagerduty, opsgenie, mail. `url` and `secret` are masked; a mask that is sent back
    keeps the stored value. `differs`: only in the answer to a dry run.
    """

    id = serializers.IntegerField(read_only=True)
    name = StringField(max_length=100)
    kind = OneOfField(choices=list(CHANNELS))
    url = StringField(max_length=2000, allow_blank=True, required=False)
    secret = StringField(allow_blank=True, allow_null=True, required=False, trim_whitespace=False)
    recipients = ListField(child=StringField(allow_blank=True), allow_null=True, required=False)
    enabled = FlagField(default=True)
    differs = serializers.BooleanField(read_only=True, required=False)


class DryRunShape(QueryShape):
    dry_run = FlagField(default=False)


class IncidentShape(serializers.Serializer[Any]):
    """`began_ms`: of the first failure; `resolved_ms`, `acknowledged_ms`: 0 until then; `withheld`: silenced."""

    id = serializers.IntegerField()
    rule = serializers.CharField(source="rule_name")
    kind = serializers.CharField()
    subject = serializers.CharField()
    connector = serializers.CharField()
    summary = serializers.CharField()
    began_ms = serializers.IntegerField()
    failures = serializers.IntegerField()
    acknowledged_ms = serializers.IntegerField()
    acknowledged_by = serializers.CharField()
    withheld = serializers.BooleanField()
    opened_ms = serializers.IntegerField()
    resolved_ms = serializers.IntegerField()


class DeliveryShape(serializers.Serializer[Any]):
    """`state`: waiting, under way, sent, given up; `due_ms`: the next try; `status`: of the last answer, or 0."""

    id = serializers.IntegerField()
    incident = serializers.IntegerField(source="incident_id", allow_null=True)
    destination = serializers.CharField(source="destination_name")
    what = serializers.CharField()
    state = serializers.CharField()
    tries = serializers.IntegerField()
    created_ms = serializers.IntegerField()
    due_ms = serializers.IntegerField()
    ended_ms = serializers.IntegerField()
    status = serializers.IntegerField()
    error = serializers.CharField()
