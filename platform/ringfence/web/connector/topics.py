"""The Topics tab: the topics that the connector has written to, and the last records of one of them.

Reading records requires the `view-data` permission, is possible only for topics that this connector has written to, and
leaves an audit entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST

from ringfence import dispatch
from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.topic_grant_check import may_look_at
from ringfence.audit.trail import note
from ringfence.dispatch import Refusal
from ringfence.engine.questions import ReadLastRecords
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import Masker
from ringfence.projection.models import ActiveTopic, ClusterInfo, Connector
from ringfence.web.connector.record_text import RecordText, decode
from ringfence.web.connector.tab_page import record_failure, render_confirmation, tab
from ringfence.web.consumer_access import consumption
from ringfence.web.state_badges import Badge, Severity
from ringfence.web.views import find

LEVELS = ("read_committed", "read_uncommitted")
_VISIBILITY_BADGES = {
    "committed": Badge("Committed", "circle-check", Severity.OK, "Every reader sees it."),
    "aborted": Badge("Aborted", "circle-x", Severity.BAD, "Only read_uncommitted readers see it."),
    "open": Badge(
        "Open",
        "circle-dot",
        Severity.MOTION,
        "Its transaction, or an earlier one, is not decided yet.",
    ),
}


@dataclass(frozen=True, slots=True)
class DisplayedRecord:
    """A record for display."""

    partition: int
    offset: int
    timestamp_ms: int
    look: Badge
    key: RecordText
    value: RecordText
    headers: list[tuple[str, RecordText]]


@tab("topics", still=True, follows=True)
def topics(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Return the topics only. Records are read for one topic at a time."""
    active_topics = list(ActiveTopic.objects.filter(connector=row.name).order_by("topic"))
    return {
        "topics": active_topics,
        "untracked": ClusterInfo.objects.filter(topic_tracking=False).exists(),
        "levels": LEVELS,
        **consumption([each.topic for each in active_topics], row.settings),
    }


@requires(POST=on_connector(Verb.VIEW_DATA).writing())
@require_POST
def records(request: HttpRequest, name: str) -> HttpResponse:
    """Show the last records of `topic`, read at `level`. A POST, because it leaves an audit entry."""
    row = find(name)
    topic, level = str(request.POST.get("topic", "")), str(request.POST.get("level", LEVELS[0]))
    try:
        if level not in LEVELS:
            raise bad_request(f"level must be one of {', '.join(LEVELS)}.")
        if not ActiveTopic.objects.filter(connector=name, topic=topic).exists():
            raise bad_request("Only topics that this connector has written to can be read.")
        if not may_look_at(topic, name, principal_of(request)):
            raise ConnectError(403, f"You are not granted topic {topic}: its records are not shown.")
        answer = dispatch.ask(ReadLastRecords(topic, row.settings, committed_only=level == LEVELS[0]))
    except (ConnectError, Refusal) as error:
        return render_confirmation(
            request, row, "topic_records", {"problem": error.message, "topic": topic}, record_failure(request, error)
        )
    note(request, f"looked at the last records of topic {topic} as {level}")
    masker, config = Masker([row.class_name]), row.settings
    views = [_describe(each, masker, config) for each in answer["records"]]
    context = {"topic": topic, "level": level, "records": views, "found": answer, "levels": LEVELS}
    context["held_back"] = sum(each["end"] > each["stable"] for each in answer["partitions"])
    return render_confirmation(request, row, "topic_records", context)


def _describe(record: Mapping[str, Any], masker: Masker, config: dict[str, str]) -> DisplayedRecord:
    def read(base64_text: str | None, size: int) -> RecordText:
        value = decode(base64_text, size)
        return RecordText(value.kind, masker.scrub(value.text, config), value.size, value.cut)

    return DisplayedRecord(
        partition=record["partition"],
        offset=record["offset"],
        timestamp_ms=max(0, record["timestamp_ms"]),
        look=_VISIBILITY_BADGES[record["seen"]],
        key=read(record["key"], record["key_size"]),
        value=read(record["value"], record["value_size"]),
        headers=[(name, read(base64_text, size)) for name, base64_text, size in record["headers"]],
    )


urlpatterns = [
    path("", topics),
    path("/records", records),
]
