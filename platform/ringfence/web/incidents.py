"""The page of an incident: what, since when, whom it was told; to acknowledge it, and to silence its connector."""

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from ringfence.access.authorise import principal_of
from ringfence.access.principal import Principal
from ringfence.access.routes import requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.alerts import silences
from ringfence.alerts.deliveries import now_ms
from ringfence.alerts.listing import incidents
from ringfence.alerts.models import Delivery, Incident, Silence
from ringfence.audit.trail import note, tell

_HOUR_MS = 3_600_000
_WRITES = requires(POST=somewhere(Verb.OPERATE).writing())


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def incident(request: HttpRequest, number: int) -> HttpResponse:
    """One incident, open or resolved."""
    one = _find(request, number)
    return render(request, "ringfence/incident.html", {**_make_context(request, one), "section": "alerts"})


def _make_context(request: HttpRequest, one: Incident) -> dict[str, object]:
    who = principal_of(request)
    return {
        "incident": one,
        "silences": silences.in_force(now_ms()).filter(Q(connector=one.connector) | Q(connector="")),
        "deliveries": Delivery.objects.filter(incident=one).order_by("pk") if who.may_everywhere(Verb.VIEW) else (),
        "may_operate": _may_operate(who, one.connector),
    }


def _find(request: HttpRequest, number: int) -> Incident:
    one = incidents(principal_of(request)).filter(pk=number).first()
    if one is None:
        raise Http404(f"There is no incident {number}")
    return one


def _may_operate(who: Principal, connector: str) -> bool:
    return who.may(Verb.OPERATE, connector) if connector else who.may_everywhere(Verb.OPERATE)


def _refuse(request: HttpRequest, status: int, text: str) -> HttpResponse:
    note(request, text)
    context = {"code": status, "title": "The action failed", "text": text}
    return render(request, "ringfence/error.html", context, status=status)


@_WRITES
@require_POST
def acknowledge(request: HttpRequest, number: int) -> HttpResponse:
    """Somebody is on it: the badge counts it no more. The first one counts."""
    one = _find(request, number)
    who = principal_of(request)
    if not _may_operate(who, one.connector):
        return _refuse(request, 403, "You need the operate permission on what the incident concerns.")
    if not one.acknowledged_ms:
        one.acknowledged_ms, one.acknowledged_by = now_ms(), who.name
        one.save(update_fields=["acknowledged_ms", "acknowledged_by"])
        after = {"incident": one.pk, "connector": one.connector, "acknowledged_by": one.acknowledged_by}
        tell(request, before=None, after=after, action="acknowledge incident")
    return HttpResponseRedirect(f"/ui/alerts/incidents/{one.pk}")


@_WRITES
@require_POST
def silence(request: HttpRequest, number: int) -> HttpResponse:
    """Send nothing about the incident's connector for some hours: `hours`, `why`."""
    one = _find(request, number)
    who, hours, why = principal_of(request), request.POST.get("hours", ""), request.POST.get("why", "").strip()
    if not _may_operate(who, one.connector):
        return _refuse(request, 403, "You need the operate permission on what the incident concerns.")
    if not (hours.isascii() and hours.isdigit() and 0 < int(hours) <= silences.LONGEST_HOURS):
        return _refuse(
            request, 400, f"hours must be an integer from 1 to {silences.LONGEST_HOURS}. Nothing was silenced."
        )
    if not why or len(why) > 1000:
        return _refuse(request, 400, "Say why, in up to 1,000 characters. Nothing was silenced.")
    now = now_ms()
    made = Silence.objects.create(
        connector=one.connector, until_ms=now + int(hours) * _HOUR_MS, created_ms=now, user=who.name, why=why
    )
    after = {"connector": made.connector, "until_ms": made.until_ms, "why": why}
    tell(request, before=None, after=after, action="silence alerts")
    return HttpResponseRedirect(f"/ui/alerts/incidents/{one.pk}")


@_WRITES
@require_POST
def end_silence(request: HttpRequest, number: int) -> HttpResponse:
    """Messages go out again, also the first ones of incidents that are still open."""
    found = Silence.objects.filter(pk=number).first()
    if found is None:
        raise Http404("It is gone")
    if not _may_operate(principal_of(request), found.connector):
        return _refuse(request, 403, "You need the operate permission on what is silenced.")
    before = {"connector": found.connector, "until_ms": found.until_ms, "why": found.why}
    tell(request, before=before, after=None, action="end silence of alerts")
    Silence.objects.filter(pk=number, ended_ms=0).update(ended_ms=now_ms())
    return HttpResponseRedirect("/ui/alerts#silences")
