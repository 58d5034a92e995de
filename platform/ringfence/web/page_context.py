"""The context that every page needs."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe

from ringfence import __version__
from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import EVERYBODY_HERE, NOBODY, Verb
from ringfence.alerts import incident_report
from ringfence.alerts.incident_report import incidents
from ringfence.alerts.models import now_ms
from ringfence.heartbeats.cluster_health import Vitals
from ringfence.heartbeats.cluster_view import look
from ringfence.web.navigation import find_navigation

THEME_COOKIE = "ringfence_theme"
SCRIPTS = tuple(f"ringfence/{name}.js" for name in ("morph", "ringfence", "live", "vital_signs", "keys"))
"""The scripts of every page, loaded in this order after htmx and its event streams."""


def page(request: HttpRequest) -> dict[str, object]:
    theme = request.COOKIES.get(THEME_COOKIE, "")
    who = principal_of(request)
    sees = who.may_somewhere(Verb.VIEW)
    return {
        "navigation": SimpleLazyObject(lambda: find_navigation(who, request.path)),
        "loud_incidents": SimpleLazyObject(
            lambda: incident_report.filter_unsilenced(incidents(who), now_ms()).count() if sees else 0
        ),
        "now_ms": now_ms(),
        "vitals": look.vitals() if sees else Vitals(),
        "theme": theme if theme in ("light", "dark") else "",
        "scripts": SCRIPTS,
        "no_login": settings.NO_LOGIN if who is EVERYBODY_HERE else "",
        "version": __version__,
        "user_name": who.name,
        "logged_in": who is not NOBODY and who.via.startswith("session"),
        "may_create": who.may_somewhere(Verb.EDIT),
    }


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def vital_signs(request: HttpRequest) -> HttpResponse:
    """`/ui/vital-signs`: the fragment for the head, fetched after a `vital` event. `page_context`
    provides its content.
    """
    response = render(request, "ringfence/parts/vital_signs.html")
    response["Cache-Control"] = "no-store"
    return response
