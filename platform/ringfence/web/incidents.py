"""The page of an incident, a room to work in: its cause, what repairs it, the last day of its connector, log lines,
what happened and who did what, notes, acknowledgement and silences; and the routes of all pages below `/ui/incidents`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final
from urllib.parse import quote

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Principal, Verb, display_name
from ringfence.alerts import incident_report
from ringfence.alerts.deliveries import GIVEN_UP, SENT
from ringfence.alerts.incident_report import DAY_MS, IncidentReport, incidents, list_changes, list_log
from ringfence.alerts.models import Delivery, Incident, Silence, now_ms
from ringfence.api.v1.history import Scope
from ringfence.audit.trail import note, record_change
from ringfence.history.models import ConfigVersion
from ringfence.http.masking import Masker
from ringfence.projection.health import describe_duration
from ringfence.projection.models import Connector, Event, find_connector
from ringfence.web import alerts
from ringfence.web.connector.event_folding import fold, headline
from ringfence.web.connector.header import facts
from ringfence.web.connector.history import hours_to_show
from ringfence.web.connector.tab_page import trouble_context
from ringfence.web.time_axis import HOUR_MS, Axis, Span, draw_axis
from ringfence.web.views import is_fragment

_MOST_EVENTS: Final = 200
_MOST_GROUPS: Final = 12


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the list. tone: "" or a class of the stylesheet; note: what somebody wrote."""

    time_ms: int
    icon: str
    text: str
    tone: str = ""
    note: str = ""


def tell_story(one: Incident, row: Connector | None, who: Principal, now_ms: int) -> list[Step]:
    """Return the steps of an incident, newest first. What the account may not see is left out."""
    end_ms = one.resolved_ms or now_ms
    steps = [*_of_incident(one), *_of_notes(one), *_of_silences(one, end_ms)]
    if who.may_everywhere(Verb.VIEW):
        steps += _of_messages(Delivery.objects.filter(incident=one).order_by("pk"))
    if row is not None:
        steps += _of_events(row, one.began_ms - _BEFORE_MS, end_ms)
        if who.may(Verb.VIEW_CONFIG, row.name):
            changes = list_changes(row.name, one.began_ms - DAY_MS, end_ms)
            steps += [Step(int(each["time_ms"]), "pencil", str(each["text"])) for each in changes]
    return sorted(steps, key=lambda step: -step.time_ms)


def _of_incident(one: Incident) -> Iterator[Step]:
    yield Step(one.began_ms, "triangle-alert", "It began", "bad")
    yield Step(one.opened_ms, "bell", f"The rule “{one.rule_name}” reported it")
    if one.acknowledged_ms:
        yield Step(one.acknowledged_ms, "check", f"Acknowledged by {display_name(one.acknowledged_by)}")
    if one.resolved_ms:
        yield Step(one.resolved_ms, "circle-check", "It is over", "ok")


def _of_notes(one: Incident) -> Iterator[Step]:
    for entry in one.notes.all():
        yield Step(entry.time_ms, "file-text", f"Note by {display_name(entry.user)}", note=entry.text)


def _of_silences(one: Incident, end_ms: int) -> Iterator[Step]:
    rows = Silence.objects.filter(connector=one.connector, created_ms__gte=one.began_ms, created_ms__lte=end_ms)
    for silence in rows:
        yield Step(silence.created_ms, "bell-off", f"Silenced by {display_name(silence.user)}", note=silence.why)


_STATES: Final = {
    SENT: ("was notified", ""),
    GIVEN_UP: ("could not be notified", "bad"),
}


def _of_messages(rows: Iterable[Delivery]) -> Iterator[Step]:
    for message in rows:
        word, tone = _STATES.get(message.state, ("is being notified", ""))
        what = "that it is over" if message.what == "resolved" else "that it began"
        why = f": {message.error}" if message.error else ""
        at_ms = message.ended_ms or message.created_ms
        yield Step(at_ms, "send", f"{message.destination_name} {word} {what}{why}", tone)


def _of_events(row: Connector, from_ms: int, to_ms: int) -> Iterator[Step]:
    """Yield the connector's events without commands, which changes tell: who gave them stands there."""
    masker, config = Masker([row.class_name]), row.settings
    events = Event.objects.filter(connector=row.name, time_ms__gte=from_ms, time_ms__lte=to_ms)
    newest = events.exclude(type="command").order_by("-time_ms", "-id")[:_MOST_EVENTS]
    for group in fold(newest)[:_MOST_GROUPS]:
        text = masker.scrub(headline(group), config)
        yield Step(group[0].time_ms, "cpu" if group[0].type == "task" else "fence", text)


_DAY_MS: Final = 86_400_000
_BEFORE_MS: Final = 5 * 60_000
_PARTS: Final = {"story": "incident_story", "incident-axis": "axis"}
_WRITES = requires(POST=somewhere(Verb.OPERATE).writing())


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def incident(request: HttpRequest, number: int) -> HttpResponse:
    """Show one incident, open or resolved; for htmx, its cause and state, what happened, or the axis."""
    one, now = _find(request, number), now_ms()
    row = find_connector(one.connector) if one.connector else None
    part = _PARTS.get(request.headers.get("HX-Target", ""), "incident_cause") if is_fragment(request) else ""
    if part == "axis":
        if row is None:  # it was deleted while the page was open
            return HttpResponse()
        return render(request, "ringfence/parts/axis.html", {"connector": row, "axis": _draw(request, one, row, now)})
    context = _make_context(request, one, row, now)
    if part:
        return render(request, f"ringfence/parts/{part}.html", context)
    if row is not None:
        context["axis"] = _draw(request, one, row, now)
        context["log_lines"] = list_log(row, one.began_ms - _BEFORE_MS, one.resolved_ms or now) or context["report"].log
    return render(request, "ringfence/incident.html", context)


def _draw(request: HttpRequest, one: Incident, row: Connector, now: int) -> Axis:
    end_ms = one.resolved_ms or now
    hours = hours_to_show(row, end_ms)
    base = f"/ui/connectors/{row.path}/history"
    span = Span(end_ms - hours * HOUR_MS, end_ms, 0 if one.resolved_ms else hours)
    scope = Scope(principal_of(request), row.name)
    return draw_axis(scope, span, base, moment=f"{base}/moment", detailed=True, incident_ms=one.began_ms)


def _make_context(request: HttpRequest, one: Incident, row: Connector | None, now: int) -> dict[str, Any]:
    """Return the context of the page but for the axis and the log."""
    who, report = principal_of(request), IncidentReport.parse(one.report)
    context: dict[str, Any] = {
        "section": "alerts",
        "incident": one,
        "lasted_ms": (one.resolved_ms or now) - one.began_ms,
        "connector": row,
        "report": report,
        "runbook_link": report.runbook if report.runbook.startswith(("https://", "http://")) else "",
        "silences": incident_report.in_force(now).filter(Q(connector=one.connector) | Q(connector="")),
        "may_operate": incident_report.may_operate(who, one.connector),
        "story": tell_story(one, row, who, now),
        "headline": one.summary.partition(". ")[0],
        "path": quote(one.connector, safe=""),
    }
    if row is None:
        return context
    if not one.resolved_ms:
        header = facts(row)
        troubles = any(header[name] for name in ("waits", "refusals", "failures", "slots", "cause"))
        context |= {"is_live": True, "has_trouble": troubles, **header, **trouble_context(request, row, header)}
        context["repairs"] = list(_list_repairs(one, row, context))
    return context


@dataclass(frozen=True, slots=True)
class Repair:
    """What can be done about an incident. address: below the connector's; asks: it opens a dialog that shows the effect
    before anything is done; effect: what it changes, in a sentence.
    """

    key: str
    word: str
    icon: str
    verb: str
    address: str
    effect: str
    asks: bool = False


def _list_repairs(one: Incident, row: Connector, context: Mapping[str, Any]) -> Iterator[Repair]:
    """Yield what can be done, the most useful first."""
    on_record = context["failed_on_a_record"]
    record = next((failure for failure in context["failures"] if failure.record is not None), None)
    if record is not None and record.record is not None:
        effect = (
            "Records that cannot be processed go there from now on, and the others to their topic. It can be replayed "
            "from there once the cause is corrected. Tasks start as a new generation."
        )
        word = "Send it to a dead letter queue"
        yield Repair("dead-letter", word, "inbox", Verb.EDIT, "repairs/dead-letter", effect, asks=True)
        if record.record.settings:
            name = record.record.settings[0]
            effect = f"Changes {name}, which refuses the record. The record is read again with the new value."
            address = f"repairs/setting?task={record.tasks[0]}"
            yield Repair("setting", "Change the setting", "pencil", Verb.EDIT, address, effect, asks=True)
    newest = ConfigVersion.objects.filter(connector=row.name).order_by("-number").first()
    if (
        newest is not None
        and newest.number > 1
        and one.began_ms - _DAY_MS < newest.time_ms <= one.began_ms + _BEFORE_MS
    ):
        when = describe_duration(abs(one.began_ms - newest.time_ms))
        effect = (
            f"Configuration version {newest.number} became current {when} before it began. The version before it comes "
            "back, and tasks start as a new generation, at the last committed offset. You see the difference first."
        )
        yield Repair("rollback", "Roll back", "undo-2", Verb.EDIT, "repairs/rollback", effect, asks=True)
    if context["failures"]:
        effect = "Failed tasks go on from the last committed offset: nothing is lost, nothing is written twice."
        again = " They will read this record again, and fail on it again." if on_record else ""
        yield Repair("restart", "Restart", "rotate-cw", Verb.OPERATE, "actions/restart-failed", effect + again)
    if row.target == "RUNNING":
        effect = "Tasks commit what they have, and read nothing until somebody resumes them. The incident is then over."
        yield Repair("pause", "Pause", "pause", Verb.OPERATE, "actions/pause", effect)


def _find(request: HttpRequest, number: int) -> Incident:
    one = incidents(principal_of(request)).filter(pk=number).first()
    if one is None:
        raise Http404(f"There is no incident {number}")
    return one


def _refuse(request: HttpRequest, status: int, text: str) -> HttpResponse:
    note(request, text)
    context = {"code": status, "title": "The action failed", "text": text}
    return render(request, "ringfence/error.html", context, status=status)


def _operates(act: Callable[[HttpRequest, Incident, Principal], HttpResponse]) -> Callable[..., HttpResponse]:
    """A view of an incident's number, for accounts with the operate permission on what the incident concerns."""

    @_WRITES
    @require_POST
    @wraps(act)
    def view(request: HttpRequest, number: int) -> HttpResponse:
        one, who = _find(request, number), principal_of(request)
        if not incident_report.may_operate(who, one.connector):
            return _refuse(request, 403, "You need the operate permission on what the incident concerns.")
        return act(request, one, who)

    return view


@_operates
def acknowledge(request: HttpRequest, one: Incident, who: Principal) -> HttpResponse:
    """Acknowledge the incident: the badge no longer counts it. Only the first acknowledgement is recorded."""
    if (after := incident_report.acknowledge(one, who)) is not None:
        record_change(request, before=None, after=after, action="acknowledge incident")
    return HttpResponseRedirect(f"/ui/incidents/{one.pk}")


@_operates
def add_note(request: HttpRequest, one: Incident, who: Principal) -> HttpResponse:
    """Keep the note `text` with the incident."""
    try:
        incident_report.add_note(one, request.POST.get("text"), who)
    except ValueError as error:
        return _refuse(request, 400, str(error))
    after = {"incident": one.pk, "connector": one.connector}
    record_change(request, before=None, after=after, action="note on incident")
    return HttpResponseRedirect(f"/ui/incidents/{one.pk}#story-title")


@_operates
def silence(request: HttpRequest, one: Incident, who: Principal) -> HttpResponse:
    """Silence the incident's connector for some hours: `hours`, `why`."""
    hours, why = request.POST.get("hours", ""), request.POST.get("why", "")
    try:
        new_silence = incident_report.silence(one.connector, hours, why, who)
    except ValueError as error:
        return _refuse(request, 400, str(error))
    record_change(request, before=None, after=incident_report.audit_data(new_silence), action="silence alerts")
    return HttpResponseRedirect(f"/ui/incidents/{one.pk}")


@_WRITES
@require_POST
def end_silence(request: HttpRequest, number: int) -> HttpResponse:
    """End a silence: messages are sent again, including the first ones of incidents that are still open."""
    row = Silence.objects.filter(pk=number).first()
    if row is None:
        raise Http404("It is gone")
    if not incident_report.may_operate(principal_of(request), row.connector):
        return _refuse(request, 403, "You need the operate permission on the silenced connectors.")
    record_change(request, before=incident_report.audit_data(row), after=None, action="end silence of alerts")
    incident_report.end(row)
    return HttpResponseRedirect("/ui/incidents/silences")


urlpatterns = [
    path("", alerts.open_incidents),
    path("/rules", alerts.rules),
    path("/rules/new", alerts.new_rule),
    path("/rules/<int:number>", alerts.edit_rule),
    path("/rules/<int:number>/delete", alerts.delete_rule),
    path("/destinations", alerts.destinations),
    path("/destinations/new", alerts.new_destination),
    path("/destinations/<int:number>", alerts.edit_destination),
    path("/destinations/<int:number>/all-rules", alerts.tell_by_all_rules),
    path("/destinations/<int:number>/delete", alerts.delete_destination),
    path("/destinations/<int:number>/test", alerts.test_destination),
    path("/silences", alerts.list_silences),
    path("/silences/<int:number>/end", end_silence),
    path("/<int:number>", incident),
    path("/<int:number>/acknowledge", acknowledge),
    path("/<int:number>/notes", add_note),
    path("/<int:number>/silence", silence),
]
