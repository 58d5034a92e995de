"""`…/dead-letters`: records that failed, as their topic keeps them, and their replay with an outcome for each."""

from typing import Any, Final

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.routes import on_connector
from ringfence.access.verbs import Verb
from ringfence.api import dead_letters, reading
from ringfence.api.v1.base import TEXT, V1View
from ringfence.audit.trail import note
from ringfence.http.errors import bad_request

_OUTCOMES: Final = ["written", "dropped", "failed", "replayed", "undecided", "missing"]
_LARGEST: Final = 2**63 - 1


class LetterShape(serializers.Serializer[Any]):
    """`key`, `value` and headers' values in Base64, at most 8 kB of each; sizes are the whole ones, -1 for null.

    `replayed`: undecided where an open transaction hides it, unknown where not all could be read in time.
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
        fields["class"] = fields.pop("failed_class")  # a word of Python's
        return fields


class EdgeShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    first = serializers.IntegerField()
    end = serializers.IntegerField()


class LettersShape(serializers.Serializer[Any]):
    """The newest first. `before`: the parameter of the next page, "" after the last. `at_most`: the topic's offsets, of
    which marks of replays, transactions and other connectors' letters take some. `complete`: read to the end."""

    connector = serializers.CharField()
    topic = serializers.CharField()
    before = serializers.CharField(allow_blank=True)
    at_most = serializers.IntegerField()
    complete = serializers.BooleanField()
    partitions = EdgeShape(many=True)
    letters = LetterShape(many=True)


class PlaceShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField(min_value=0, max_value=2**31 - 1)
    offset = serializers.IntegerField(min_value=0, max_value=_LARGEST)


class ReplayShape(serializers.Serializer[Any]):
    """Either `letters`, or `all` (true) that match `stage` and `class`: the oldest 500."""

    letters = PlaceShape(many=True, required=False)
    all = serializers.BooleanField(required=False)
    stage = serializers.ChoiceField(choices=list(dead_letters.STAGES), required=False)
    failed_class = serializers.CharField(required=False, max_length=500)
    reason = serializers.CharField(required=False, max_length=dead_letters.LONGEST_REASON)

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        fields["class"] = fields.pop("failed_class")
        return fields


class ResultShape(serializers.Serializer[Any]):
    """`became`: written (to `topic`), dropped by a transform; of the others nothing was changed, and `why` says it."""

    partition = serializers.IntegerField()
    offset = serializers.IntegerField()
    became = serializers.ChoiceField(choices=_OUTCOMES)
    topic = serializers.CharField(allow_blank=True)
    why = serializers.CharField(allow_blank=True)


class ReplayedShape(serializers.Serializer[Any]):
    """`left`: how many match beyond those that were taken, with `all`."""

    connector = serializers.CharField()
    results = ResultShape(many=True)
    left = serializers.IntegerField()


class DeadLetters(V1View):
    """A page of the connector's dead letters, read from its topic at this moment; it leaves an audit entry."""

    access = {"GET": on_connector(Verb.VIEW_DATA).writing()}
    shape = LettersShape
    parameters = {
        "GET": {
            "stage": {"type": "string", "enum": list(dead_letters.STAGES)},
            "class": {**TEXT, "maxLength": 500},
            "before": TEXT,
            "level": {"type": "string", "enum": list(dead_letters.LEVELS)},
        }
    }

    def get(self, request: Request, name: str) -> Response:
        asked = self.parse_parameters("stage", "class", "before", "level")
        row = reading.connector(name)
        if asked.get("stage", "TRANSFORMATION") not in dead_letters.STAGES:
            raise bad_request(f"stage must be one of {', '.join(dead_letters.STAGES)}.")
        found = dead_letters.find_dead_letters(
            row,
            stage=asked.get("stage", ""),
            by=asked.get("class", ""),
            before=asked.get("before", ""),
            level=asked.get("level", dead_letters.LEVELS[0]),
        )
        note(self.request._request, f"looked at dead letters in topic {found['topic']}")
        return Response(LettersShape({**found, "connector": name}).data)


class Replay(V1View):
    """The records go through the connector's transforms and converters as they are now, and are written exactly once:
    a letter that was replayed before is refused, one that fails again stays as it is."""

    access = {"POST": on_connector(Verb.OPERATE).writing()}
    shape = ReplayedShape
    takes = {"POST": ReplayShape}

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_fields("letters", "all", "stage", "class", "reason")
        places = _places(fields["letters"]) if "letters" in fields else None
        if ("all" in fields) is (places is not None) or fields.get("all", True) is not True:
            raise bad_request("Either letters or all must be given; all is true.")
        texts = {key: fields.get(key, "") for key in ("stage", "class", "reason")}
        for key, text in texts.items():
            if not isinstance(text, str) or (key in fields and not text.strip()):
                raise bad_request(f"{key} must be a string, and not an empty one.")
        if places is not None and (texts["stage"] or texts["class"]):
            raise bad_request("stage and class choose among all: leave them out where letters are given.")
        row = reading.connector(name)
        if reason := texts["reason"].strip():
            note(self.request._request, reason)
        done = dead_letters.replay(
            row, self.user_name, places=places, stage=texts["stage"], by=texts["class"], reason=reason
        )
        note(self.request._request, dead_letters.audit_text(done, reason))
        return Response({"connector": name, "results": done["results"], "left": done["left"]})


def _places(given: object) -> list[tuple[int, int]]:
    if not isinstance(given, list):
        raise bad_request("letters must be a list of {partition, offset}.")
    places = []
    for each in given:
        if not isinstance(each, dict) or set(each) != {"partition", "offset"}:
            raise bad_request("Each of letters must have a partition and an offset, and nothing else.")
        partition, offset = each["partition"], each["offset"]
        for number, largest in ((partition, 2**31 - 1), (offset, _LARGEST)):
            if type(number) is not int or not 0 <= number <= largest:
                raise bad_request("partition and offset must be integers from 0 on.")
        places.append((partition, offset))
    return places
