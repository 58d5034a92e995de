"""`…/proof`, also for the pages: whether a connector was exactly once, as counted in Kafka by a worker. Start a proof,
follow it, and read earlier reports, also as plain text.
"""

import json
from datetime import UTC, datetime
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api import connector_reads
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import IntegerField, OneOfField, QueryShape, RequestShape
from ringfence.audit.trail import note
from ringfence.engine.questions import StartProof
from ringfence.fencing.clock import epoch_ms
from ringfence.history import old_generations
from ringfence.history.models import OffsetSnapshot, ProofRun
from ringfence.http.errors import ConnectError, bad_request
from ringfence.projection.models import Connector

KEPT: Final = 20
SECONDS: Final = 300
LONGEST_SECONDS: Final = 3600
SILENT_MS: Final = 30_000


def start(row: Connector, user: str, seconds: int = SECONDS) -> ProofRun:
    """Start a count on a worker. If one is in progress, return it instead. Raises `ConnectError`, `Refusal`."""
    if not 1 <= seconds <= LONGEST_SECONDS:
        raise bad_request(f"seconds must be an integer from 1 to {LONGEST_SECONDS}.")
    running = newest(row.name)
    if running is not None and state_of(running) in ("waiting", "running"):
        return running
    run = _create(row.name, user)
    question = StartProof(
        run.number,
        {**row.settings, "name": row.name},
        old_generations.count_transactional_ids(row),
        old_generations.list_active_topics(row),
        float(seconds),
        OffsetSnapshot.objects.filter(connector=row.name, why__startswith="before").exists(),
    )
    try:
        dispatch.ask(question)
    except dispatch.Refusal:
        # If only the answer was late, the worker has started, and its row shows it.
        if not ProofRun.objects.filter(pk=run.pk).exclude(state="waiting").exists():
            run.delete()
            raise
    run.refresh_from_db()
    return run


def _create(name: str, user: str) -> ProofRun:
    now_ms = epoch_ms()
    rows = ProofRun.objects.filter(connector=name)
    with transaction.atomic():
        number = (rows.aggregate(Max("number"))["number__max"] or 0) + 1
        try:
            with transaction.atomic():
                run = ProofRun.objects.create(
                    connector=name, number=number, user=user, started_ms=now_ms, beat_ms=now_ms
                )
        except IntegrityError:
            raise ConnectError(409, f"Another proof of {name} has just started: see that one.") from None
        rows.filter(number__lte=number - KEPT).delete()
    return run


def newest(name: str) -> ProofRun | None:
    """Return the proof that was started last."""
    return ProofRun.objects.filter(connector=name).order_by("-number").first()


def find(name: str, number: int | None) -> ProofRun:
    """Return that proof, or the newest. Raises `ConnectError` with 404."""
    run = newest(name) if number is None else ProofRun.objects.filter(connector=name, number=number).first()
    if run is None:
        what = "no proof yet" if number is None else f"no proof {number}"
        raise ConnectError(404, f"Connector {name} has {what}: POST to this address to count one.")
    return run


def state_of(run: ProofRun) -> str:
    """Return waiting, running, done or failed. A proof whose worker no longer reports has failed, too."""
    silent = run.state in ("waiting", "running") and epoch_ms() - run.beat_ms > SILENT_MS
    return "failed" if silent else run.state


def error_of(run: ProofRun) -> str:
    """Return why there is no report; "" if there is one, or will be."""
    if run.state != "failed" and state_of(run) == "failed":
        return f"Worker {run.worker or 'unknown'} does not report any more. Start the proof again"
    return run.error


def report_of(run: ProofRun) -> dict[str, Any] | None:
    """Return the result; None if there is none."""
    return dict(json.loads(run.report)) if run.report else None


def serialize(run: ProofRun) -> dict[str, Any]:
    """Return the document of the API and of the file."""
    return {
        "connector": run.connector,
        "number": run.number,
        "state": state_of(run),
        "user": run.user,
        "worker": run.worker,
        "started_ms": run.started_ms,
        "ended_ms": run.ended_ms or None,
        "doing": run.doing,
        "done": run.done,
        "total": run.total,
        "error": error_of(run),
        "report": report_of(run),
    }


WORDS: Final = {
    "exact": "Exactly once, as far as it was counted",
    "failed": "Not exactly once: something is missing, doubled or late",
    "incomplete": "Nothing wrong was found, but not everything could be counted",
}


def to_text(run: ProofRun) -> str:
    """Return the report as plain text."""
    report = report_of(run)
    lines = [f"Exactly-once proof {run.number} of connector {run.connector}", ""]
    if report is None:
        return "\n".join([*lines, f"There is no report: {error_of(run) or state_of(run)}", ""])
    cluster = report["cluster"]
    lines += [
        f"Verdict    {report['verdict']}: {WORDS[report['verdict']]}.",
        f"Counted    {_time(run.started_ms)} to {_time(run.ended_ms)}, by worker {run.worker}"
        + (f", asked by {run.user}" if run.user else ""),
        f"Cluster    {cluster['id']} at {cluster['bootstrap']}",
        f"Versions   Ringfence {report['ringfence']}, {report['class']} {report['version']}",
        "",
        "Checks",
    ]
    for check in report["checks"]:
        lines.append(f"  {check['result']:<8} {check['name']}: {check['message']}.")
        if check["remedy"]:
            lines.append(f"           {check['remedy']}.")
    lines += ["", "Counts"]
    lines += [f"  {name.replace('_', ' '):<14} {_number(count)}" for name, count in report["counts"].items()]
    lines += ["", "Topics (first offset, end)"]
    for topic in report["topics"]:
        partitions = [each for each in topic["partitions"] if each["end"] > each["first"]]
        parts = ", ".join(f"{each['partition']}: {each['first']} to {each['end']}" for each in partitions)
        lines.append(f"  {topic['topic']}  {parts or 'empty'}, of {topic['partition_count']} partitions")
    lines += ["", f"Committed source offsets ({report['source_partitions']})"]
    lines += [f"  {json.dumps(each['partition'])}  {json.dumps(each['offset'])}" for each in report["offsets"]]
    lines += ["", "Attempts"]
    for each in report["attempts"]:
        who = f"task {each['task']}, generation {each['generation']}, attempt {each['attempt']}"
        compared = f"{_number(each['counted'])} counted, {_number(each['visible'])} visible"
        lines.append(f"  {who}: {each['transactions']:,} transactions, {compared}")
    return "\n".join([*lines, ""])


def _number(count: int | None) -> str:
    return "cannot be counted" if count is None else f"{count:,}"


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


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

    seconds = IntegerField(default=SECONDS, min_value=1, max_value=LONGEST_SECONDS)


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
        run = find(name, query.get("number"))
        if query["format"] == "text":
            return HttpResponse(to_text(run), content_type="text/plain; charset=utf-8")
        return Response(ProofShape(serialize(run)).data)

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        seconds = self.parse_body()["seconds"]
        run = start(connector_reads.connector(name), self.user_name, seconds)
        note(self.http_request, f"counted exactly-once proof {run.number}")
        return Response(ProofShape(serialize(run)).data, status=202)
