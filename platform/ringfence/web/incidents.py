"""The page of an incident: its cause, start and notifications, with its acknowledgement and silences for
its connector.
"""

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from ringfence.access.authorise import principal_of
from ringfence.access.routes import requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.alerts import incident_actions, silences
from ringfence.alerts.deliveries import now_ms
from ringfence.alerts.models import Delivery, Incident, Silence
from ringfence.alerts.visible_incidents import incidents
from ringfence.audit.trail import note, record_change

_WRITES = requires(POST=somewhere(Verb.OPERATE).writing())


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def incident(request: HttpRequest, number: int) -> HttpResponse:
    """Show one incident, open or resolved."""
    one = _find(request, number)
    return render(request, "ringfence/incident.html", {**_make_context(request, one), "section": "alerts"})


def _make_context(request: HttpRequest, one: Incident) -> dict[str, object]:
    who = principal_of(request)
    return {
        "incident": one,
        "silences": silences.in_force(now_ms()).filter(Q(connector=one.connector) | Q(connector="")),
        "deliveries": Delivery.objects.filter(incident=one).order_by("pk") if who.may_everywhere(Verb.VIEW) else (),
        "may_operate": incident_actions.may_operate(who, one.connector),
    }


def _find(request: HttpRequest, number: int) -> Incident:
    one = incidents(principal_of(request)).filter(pk=number).first()
    if one is None:
        raise Http404(f"There is no incident {number}")
    return one


def _refuse(request: HttpRequest, status: int, text: str) -> HttpResponse:
    note(request, text)
    context = {"code": status, "title": "The action failed", "text": text}
    return render(request, "ringfence/error.html", context, status=status)


@_WRITES
@require_POST
def acknowledge(request: HttpRequest, number: int) -> HttpResponse:
    """Acknowledge the incident: the badge no longer counts it. Only the first acknowledgement is recorded."""
    one = _find(request, number)
    who = principal_of(request)
    if not incident_actions.may_operate(who, one.connector):
        return _refuse(request, 403, "You need the operate permission on what the incident concerns.")
    if (after := incident_actions.acknowledge(one, who)) is not None:
        record_change(request, before=None, after=after, action="acknowledge incident")
    return HttpResponseRedirect(f"/ui/alerts/incidents/{one.pk}")


@_WRITES
@require_POST
def silence(request: HttpRequest, number: int) -> HttpResponse:
    """Silence the incident's connector for some hours: `hours`, `why`."""
    one = _find(request, number)
    who, hours, why = principal_of(request), request.POST.get("hours", ""), request.POST.get("why", "")
    if not incident_actions.may_operate(who, one.connector):
        return _refuse(request, 403, "You need the operate permission on what the incident concerns.")
    try:
        new_silence = incident_actions.silence(one.connector, hours, why, who)
    except ValueError as error:
        return _refuse(request, 400, str(error))
    record_change(request, before=None, after=incident_actions.audit_data(new_silence), action="silence alerts")
    return HttpResponseRedirect(f"/ui/alerts/incidents/{one.pk}")


@_WRITES
@require_POST
def end_silence(request: HttpRequest, number: int) -> HttpResponse:
    """End a silence: messages are sent again, including the first ones of incidents that are still open."""
    row = Silence.objects.filter(pk=number).first()
    if row is None:
        raise Http404("It is gone")
    if not incident_actions.may_operate(principal_of(request), row.connector):
        return _refuse(request, 403, "You need the operate permission on the silenced connectors.")
    record_change(request, before=incident_actions.audit_data(row), after=None, action="end silence of alerts")
    incident_actions.end(row)
    return HttpResponseRedirect("/ui/alerts#silences")
