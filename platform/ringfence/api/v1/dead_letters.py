"""`…/dead-letters`: failed records in the dead letter queue, and their replay with an outcome for each."""

from typing import Any, Final

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api import connector_reads, dead_letters
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import (
    FlagField,
    IntegerField,
    ListField,
    OneOfField,
    QueryShape,
    RequestShape,
    StringField,
)
from ringfence.audit.trail import note

_OUTCOMES: Final = ["written", "dropped", "failed", "replayed", "undecided", "missing"]
_LARGEST: Final = 2**63 - 1


class LetterShape(serializers.Serializer[Any]):
    """`key`, `value` and headers' values in Base64, at most 8 kB of each; sizes are those of the whole, -1 for null.

    `replayed`: undecided if an open transaction hides it, unknown if not everything could be read in time.
    """

    partition = serializers.IntegerField()
    offset = serializers.IntegerField()
    timestamp_ms = serializers.IntegerField()
    seen = serializers.ChoiceField(choices=["committed", "aborted", "open"])
    replayed = serializers.ChoiceField(choices=["no", "yes", "undecided", "unknown"])
    stage = serializers.CharField(allow_blank=True)
    failed_class = serializers.CharField(allow_blank=True, help_text="`class`: the transform or converter.")
    error = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    trace = serializers.CharField(allow_blank=True)
    topic = serializers.CharField(allow_blank=True, help_text="Where the record was to go.")
    task = serializers.CharField(allow_blank=True)
    source_partition = serializers.CharField(allow_blank=True)
    source_offset = serializers.CharField(allow_blank=True)
    key = serializers.CharField(allow_null=True, allow_blank=True)
    key_size = serializers.IntegerField()
    value = serializers.CharField(allow_null=True, allow_blank=True)
    value_size = serializers.IntegerField()
    headers = serializers.ListField(child=serializers.ListField(), help_text="Name, value in Base64 or null, size.")

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        fields["class"] = fields.pop("failed_class")  # a Python keyword
        return fields


class EdgeShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    first = serializers.IntegerField()
    end = serializers.IntegerField()


class LettersShape(serializers.Serializer[Any]):
    """The newest first. `before`: the parameter of the next page, "" after the last. `at_most`: the topic's number of
    offsets, which includes replay marks, transaction markers and other connectors' dead letters. `complete`: read to
    the end.
    """

    connector = serializers.CharField()
    topic = serializers.CharField()
    before = serializers.CharField(allow_blank=True)
    at_most = serializers.IntegerField()
    complete = serializers.BooleanField()
    partitions = EdgeShape(many=True)
    letters = LetterShape(many=True)


class PlaceShape(RequestShape):
    partition = IntegerField(min_value=0, max_value=2**31 - 1)
    offset = IntegerField(min_value=0, max_value=_LARGEST)


class ReplayShape(RequestShape):
    """Either `letters`, or `all` (true) that match `stage` and `class`: the oldest 500."""

    letters = ListField(child=PlaceShape(), required=False, refusal="must be a list of {partition, offset}")
    all = FlagField(required=False)
    stage = OneOfField(choices=list(dead_letters.STAGES), required=False)
    class_ = StringField(required=False, max_length=500)
    reason = StringField(required=False, max_length=dead_letters.LONGEST_REASON)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("all" in attrs) is ("letters" in attrs) or attrs.get("all", True) is not True:
            raise ValidationError("Either letters or all must be given; all is true")
        if "letters" in attrs and ("stage" in attrs or "class" in attrs):
            raise ValidationError("stage and class choose among all: leave them out where letters are given")
        return attrs


class ResultShape(serializers.Serializer[Any]):
    """`became`: written (to `topic`) or dropped by a transform. For other outcomes nothing was changed, and `why` gives
    the reason.
    """

    partition = serializers.IntegerField()
    offset = serializers.IntegerField()
    became = serializers.ChoiceField(choices=_OUTCOMES)
    topic = serializers.CharField(allow_blank=True)
    why = serializers.CharField(allow_blank=True)


class ReplayedShape(serializers.Serializer[Any]):
    """`left`: with `all`, how many matches remain."""

    connector = serializers.CharField()
    results = ResultShape(many=True)
    left = serializers.IntegerField()


class LettersQueryShape(QueryShape):
    stage = OneOfField(choices=list(dead_letters.STAGES), required=False)
    class_ = StringField(default="", allow_blank=True, max_length=500)
    before = StringField(default="", allow_blank=True, trim_whitespace=False)
    level = OneOfField(choices=list(dead_letters.LEVELS), default=dead_letters.LEVELS[0])


class DeadLetters(V1View):
    """A page of the connector's dead letters, read from the topic now. Leaves an audit entry."""

    access = {"GET": on_connector(Verb.VIEW_DATA).writing()}
    shape = LettersShape
    queries = {"GET": LettersQueryShape}

    def get(self, request: Request, name: str) -> Response:
        query = self.parse_query()
        row = connector_reads.connector(name)
        page = dead_letters.find_dead_letters(
            row,
            stage=query.get("stage", ""),
            by=query["class"],
            before=query["before"],
            level=query["level"],
        )
        note(self.http_request, f"looked at dead letters in topic {page['topic']}")
        return Response(LettersShape({**page, "connector": name}).data)


class Replay(V1View):
    """The records go through the connector's current transforms and converters, and are written exactly once: a record
    that was replayed before is refused, and one that fails again is unchanged.
    """

    access = {"POST": on_connector(Verb.OPERATE).writing()}
    shape = ReplayedShape
    takes = {"POST": ReplayShape}

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        places = [(place["partition"], place["offset"]) for place in fields["letters"]] if "letters" in fields else None
        reason = fields.get("reason", "")
        row = connector_reads.connector(name)
        if reason:
            note(self.http_request, reason)
        done = dead_letters.replay(
            row,
            self.user_name,
            places=places,
            stage=fields.get("stage", ""),
            by=fields.get("class", ""),
            reason=reason,
        )
        note(self.http_request, dead_letters.audit_text(done, reason))
        return Response({"connector": name, "results": done["results"], "left": done["left"]})
