"""`…/dead-letters`, also for the pages: failed records in the dead letter queue, and their replay with an outcome for
each. A worker reads them; secrets are hidden.
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api import connector_reads
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
from ringfence.connectors.sdk.delivery import DEAD_LETTERS
from ringfence.engine.questions import ListDeadLetters, ReplayDeadLetters
from ringfence.fencing.clock import epoch_ms
from ringfence.http.errors import bad_request
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector

LEVELS: Final = ("read_committed", "read_uncommitted")
STAGES: Final = ("TRANSFORMATION", "HEADER_CONVERTER", "KEY_CONVERTER", "VALUE_CONVERTER")
MOST_PLACES: Final = 500
LONGEST_REASON: Final = 1000
READ_SECONDS, REPLAY_SECONDS = 20.0, 60.0
_LONGEST_CLASS: Final = 500
_BEFORE: Final = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18}){0,99}")
_TEXTS: Final = ("class", "error", "message", "trace", "topic", "source_partition", "source_offset")

Places = Sequence[tuple[int, int]]


def topic_of(row: Connector) -> str:
    """Return the connector's dead letter queue; "" if it has none."""
    return row.settings.get(DEAD_LETTERS, "").strip()


def find_dead_letters(
    row: Connector, *, stage: str = "", by: str = "", before: str = "", level: str = LEVELS[0]
) -> dict[str, Any]:
    """Return `topic`, `letters`, `before` (a string for the next page, "" after the last), `partitions`, `at_most`,
    `complete`.

    Keys and values are encoded for `web.connector.record_text`. Raises `ConnectError`, `Refusal`.
    """
    stage, by = _filters(stage, by)
    if level not in LEVELS:
        raise bad_request(f"level must be one of {', '.join(LEVELS)}.")
    if before and not _BEFORE.fullmatch(before):
        raise bad_request("before must be the value of the previous page: partition:offset,partition:offset…")
    config = _config(row)
    older = [[int(number) for number in each.split(":")] for each in before.split(",")] if before else None
    question = ListDeadLetters(config, stage, by, older, committed_only=level == LEVELS[0])
    answer = dispatch.ask(question, READ_SECONDS)
    masker = Masker([row.class_name])

    def scrub(text: str) -> str:
        return masker.scrub(text, config)

    for letter in answer["letters"]:
        letter.update({key: scrub(letter[key]) for key in _TEXTS})
        letter.update({key: _scrub(letter[key], scrub) for key in ("key", "value")})
        letter["headers"] = [[name, _scrub(encoded, scrub), size] for name, encoded, size in letter["headers"]]
    following = answer["before"] or ()
    answer["before"] = ",".join(f"{partition}:{offset}" for partition, offset in following)
    answer["at_most"] = sum(max(0, each["end"] - each["first"]) for each in answer["partitions"])
    return answer


def replay(
    row: Connector, user: str, *, places: Places | None = None, stage: str = "", by: str = "", reason: str = ""
) -> dict[str, Any]:
    """Replay the records at `places`, or without them all that match, the oldest first. Returns `topic`, `results`,
    `left`.

    Raises `ConnectError`, `Refusal`.
    """
    selection: dict[str, Any] = {}
    if places is None:
        selection["stage"], selection["class"] = _filters(stage, by)
    elif not 1 <= len(places) <= MOST_PLACES:
        raise bad_request(f"From 1 to {MOST_PLACES} dead letters can be replayed at a time: nothing was replayed.")
    else:
        selection["places"] = [list(place) for place in places]
    if len(reason) > LONGEST_REASON:
        raise bad_request(f"reason may have up to {LONGEST_REASON} characters: nothing was replayed.")
    config = _config(row)
    masker = Masker([row.class_name])
    secret = sorted(key for key in config if masker.secret(row.class_name, key))
    details = {"by": user, "at_ms": str(epoch_ms()), **({"reason": reason} if reason else {})}
    answer = dispatch.ask(ReplayDeadLetters(config, selection, details, secret), REPLAY_SECONDS)
    for result in answer["results"]:
        result["why"] = masker.scrub(result["why"], config)
    return answer


def count_outcomes(results: Sequence[Mapping[str, Any]]) -> str:
    """Summarise the outcomes in one line, for people and the audit trail."""
    topics: dict[str, int] = {}
    for each in results:
        if each["became"] == "written":
            topics[each["topic"]] = topics.get(each["topic"], 0) + 1
    parts = [f"{count} written to {topic}" for topic, count in sorted(topics.items())]
    words = {
        "dropped": "dropped by a transform",
        "failed": "failed again",
        "replayed": "replayed before",
        "undecided": "not decided yet",
        "missing": "not there",
    }
    for became, text in words.items():
        count = sum(each["became"] == became for each in results)
        parts += [f"{count} {text}"] if count else []
    return ", ".join(parts) or "no dead letter matched"


def audit_text(done: Mapping[str, Any], reason: str) -> str:
    """Return the message of a replay's audit entry."""
    summary = f"replayed dead letters of {done['topic']}: {count_outcomes(done['results'])}"
    return f"{reason}. {summary}" if reason else summary


def _scrub(encoded: str | None, scrub: Callable[[str], str]) -> str | None:
    """Remove the connector's secrets from bytes in Base64."""
    if encoded is None:
        return None
    text = base64.b64decode(encoded).decode("utf-8", "surrogateescape")
    return base64.b64encode(scrub(text).encode("utf-8", "surrogateescape")).decode("ascii")


def _config(row: Connector) -> dict[str, str]:
    if not topic_of(row):
        raise bad_request(f"{row.name} keeps no dead letters: set errors.tolerance=all and {DEAD_LETTERS}.")
    return {**row.settings, "name": row.name}


def _filters(stage: str, by: str) -> tuple[str, str]:
    if stage and stage not in STAGES:
        raise bad_request(f"stage must be one of {', '.join(STAGES)}.")
    if len(by) > _LONGEST_CLASS:
        raise bad_request(f"class may have up to {_LONGEST_CLASS} characters.")
    return stage, by.strip()


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
    stage = OneOfField(choices=list(STAGES), required=False)
    class_ = StringField(required=False, max_length=500)
    reason = StringField(required=False, max_length=LONGEST_REASON)

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
    stage = OneOfField(choices=list(STAGES), required=False)
    class_ = StringField(default="", allow_blank=True, max_length=500)
    before = StringField(default="", allow_blank=True, trim_whitespace=False)
    level = OneOfField(choices=list(LEVELS), default=LEVELS[0])


class DeadLetters(V1View):
    """A page of the connector's dead letters, read from the topic now. Leaves an audit entry."""

    access = {"GET": on_connector(Verb.VIEW_DATA).writing()}
    shape = LettersShape
    queries = {"GET": LettersQueryShape}

    def get(self, request: Request, name: str) -> Response:
        query = self.parse_query()
        row = connector_reads.connector(name)
        page = find_dead_letters(
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
        done = replay(
            row,
            self.user_name,
            places=places,
            stage=fields.get("stage", ""),
            by=fields.get("class", ""),
            reason=reason,
        )
        note(self.http_request, audit_text(done, reason))
        return Response({"connector": name, "results": done["results"], "left": done["left"]})
