"""`…/proof`: whether a connector was exactly once, as counted in Kafka by a worker, and the report."""

from typing import Any

from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api import connector_reads, proofs
from ringfence.api.proofs import to_text
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import IntegerField, OneOfField, QueryShape, RequestShape
from ringfence.audit.trail import note


class CheckShape(serializers.Serializer[Any]):
    """`result`: note is not a fault of the connector; unknown: it cannot be counted, and `message` gives the reason."""

    name = serializers.CharField()
    result = serializers.ChoiceField(choices=["ok", "failed", "unknown", "note"])
    message = serializers.CharField()
    remedy = serializers.CharField(allow_blank=True)


class ReportShape(serializers.Serializer[Any]):
    """`verdict`: incomplete if nothing is wrong but not everything could be counted. Unknown counts are null, never 0.
    `attempts`: what each attempt's transactions report, beside what is visible.
    """

    verdict = serializers.ChoiceField(choices=["exact", "failed", "incomplete"])
    checks = CheckShape(many=True)
    counts = serializers.DictField(child=serializers.IntegerField(allow_null=True))
    topics = serializers.ListField(child=serializers.DictField(), help_text="With first offset and end by partition.")
    missing_topics = serializers.ListField(child=serializers.CharField())
    offsets = serializers.ListField(child=serializers.DictField(), help_text="Committed source offsets, at most 200.")
    source_partitions = serializers.IntegerField()
    source_count = serializers.IntegerField(allow_null=True, help_text="The source's own number of records.")
    attempts = serializers.ListField(child=serializers.DictField())
    positions = serializers.ListField(child=serializers.DictField())
    cluster = serializers.DictField(child=serializers.CharField())
    plugin = serializers.CharField(help_text="`class`: the connector's.")
    version = serializers.CharField(allow_blank=True)
    ringfence = serializers.CharField()

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        fields["class"] = fields.pop("plugin")  # a Python keyword
        return fields


class ProofShape(serializers.Serializer[Any]):
    """`doing`, `done`, `total`: the progress, in offsets. `report`: null until it is done."""

    connector = serializers.CharField()
    number = serializers.IntegerField()
    state = serializers.ChoiceField(choices=["waiting", "running", "done", "failed"])
    user = serializers.CharField(allow_blank=True)
    worker = serializers.CharField(allow_blank=True)
    started_ms = serializers.IntegerField()
    ended_ms = serializers.IntegerField(allow_null=True)
    doing = serializers.CharField(allow_blank=True)
    done = serializers.IntegerField()
    total = serializers.IntegerField()
    error = serializers.CharField(allow_blank=True)
    report = ReportShape(allow_null=True)


class BeginShape(RequestShape):
    """`seconds`: the longest time for the count."""

    seconds = IntegerField(default=proofs.SECONDS, min_value=1, max_value=proofs.LONGEST_SECONDS)


class ProofQueryShape(QueryShape):
    number = IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    format = OneOfField(choices=["json", "text"], default="json")


class Proof(V1View):
    """GET: the newest count, or `number`, of the last 20. POST: start one, and answer at once. While one is running,
    that one is returned.
    """

    access = {"GET": on_connector(Verb.VIEW), "POST": on_connector(Verb.OPERATE).writing()}
    shape = ProofShape
    takes = {"POST": BeginShape}
    codes = {"POST": 202}
    forms = ("text/plain",)
    queries = {"GET": ProofQueryShape}

    def get(self, request: Request, name: str) -> Response | HttpResponse:
        query = self.parse_query()
        connector_reads.connector(name)
        run = proofs.find(name, query.get("number"))
        if query["format"] == "text":
            return HttpResponse(to_text(run), content_type="text/plain; charset=utf-8")
        return Response(ProofShape(proofs.serialize(run)).data)

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        seconds = self.parse_body()["seconds"]
        run = proofs.start(connector_reads.connector(name), self.user_name, seconds)
        note(self.http_request, f"counted exactly-once proof {run.number}")
        return Response(ProofShape(proofs.serialize(run)).data, status=202)
