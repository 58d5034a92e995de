"""`…/history`: a connector's history, as series on one time axis."""

import time
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import on_connector, principal_of
from ringfence.access.principal import Verb
from ringfence.api import connector_reads, history_series
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import IntegerField, QueryShape

_DAY_MS = 86_400_000


class PointShape(serializers.Serializer[Any]):
    """Null in a gap, in which nothing was recorded. `commit_ms`: the mean; `lag`: null if the source measures none;
    `age_ms`: how old the data in Kafka was at most, null if that is unknown.
    """

    time_ms = serializers.IntegerField()
    state = serializers.CharField(allow_null=True, allow_blank=True)
    records = serializers.IntegerField(allow_null=True)
    commits = serializers.IntegerField(allow_null=True)
    aborted = serializers.IntegerField(allow_null=True)
    skipped = serializers.IntegerField(allow_null=True)
    dead_letters = serializers.IntegerField(allow_null=True)
    fences = serializers.IntegerField(allow_null=True)
    restarts = serializers.IntegerField(allow_null=True)
    failed = serializers.IntegerField(allow_null=True)
    open_transactions = serializers.IntegerField(allow_null=True)
    commit_ms = serializers.FloatField(allow_null=True)
    commit_max_ms = serializers.FloatField(allow_null=True)
    lag = serializers.FloatField(allow_null=True)
    age_ms = serializers.IntegerField(allow_null=True)


class MarkShape(serializers.Serializer[Any]):
    """`number`: of a configuration version or a generation, else 0; `user`: "" where unknown, or where the permission
    `view-config` is missing.
    """

    time_ms = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=history_series.KINDS)
    number = serializers.IntegerField()
    text = serializers.CharField()
    user = serializers.CharField(allow_blank=True)


class SeriesShape(serializers.Serializer[Any]):
    """At most 720 points of `step_seconds` each, in order. `lag_name`: the source metric behind `lag`, "" for none."""

    connector = serializers.CharField()
    from_ms = serializers.IntegerField()
    to_ms = serializers.IntegerField()
    step_seconds = serializers.IntegerField()
    lag_name = serializers.CharField(allow_blank=True)
    points = PointShape(many=True)
    marks = MarkShape(many=True)


class HistoryQueryShape(QueryShape):
    from_ = IntegerField(required=False, min_value=0, max_value=2**53)
    to = IntegerField(required=False, min_value=0, max_value=2**53)


class History(V1View):
    """`from` and `to` in milliseconds since the epoch, by default the last 24 hours. By minute for some days, then by
    hour.
    """

    access = {"GET": on_connector(Verb.VIEW)}
    shape = SeriesShape
    queries = {"GET": HistoryQueryShape}

    def get(self, request: Request, name: str) -> Response:
        query = self.parse_query()
        to_ms = query.get("to", int(time.time() * 1000))
        from_ms = query.get("from", max(0, to_ms - _DAY_MS))
        connector_reads.connector(name)
        scope = history_series.Scope(principal_of(request), name)
        return Response(SeriesShape({**history_series.find_series(scope, from_ms, to_ms), "connector": name}).data)
