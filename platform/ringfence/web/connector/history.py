"""The History tab: all that a connector did on one time axis, with the timeline and the logs of the same range, and the
details of one moment.
"""

import time
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import path
from django.views.decorators.http import require_safe

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.v1.history import Scope, oldest_ms, version_at
from ringfence.projection.models import Connector, Event
from ringfence.web.connector.logs import list_log_lines
from ringfence.web.connector.tab_page import tab
from ringfence.web.connector.timeline import list_lines
from ringfence.web.time_axis import HOUR_MS, Span, draw_axis, read_ms, read_span
from ringfence.web.views import find, is_fragment

_FIRST_HOURS: Final = (1, 6, 24)
_AROUND_MS: Final = 5 * 60_000
_EVENTS: Final = 50


@tab("history")
def history(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Show the axis, and below it the timeline and the logs of the same range: `?from=&to=`, or `?hours=`; `?at=` opens
    a moment. Times are in milliseconds.
    """
    span = read_span(request.GET.dict(), hours_to_show(row, int(time.time() * 1000)))
    base, at_ms = f"/ui/connectors/{row.path}/history", read_ms(request.GET.dict(), "at")
    scope = Scope(principal_of(request), row.name)
    return {
        "axis": draw_axis(scope, span, base, moment=f"{base}/moment", detailed=True),
        "opened": {} if is_fragment(request) else _open_sections(request, row, span),
        "range": span.query,
        "at_ms": at_ms,
        **(_look_at(row, at_ms) if at_ms else {}),
    }


def _open_sections(request: HttpRequest, row: Connector, span: Span) -> dict[str, str]:
    """Return the timeline and the logs of the range, by the key of their tab."""
    who = principal_of(request)
    common = {"connector": row, "may": who.verbs_on(row.name), "is_section": True, "csrf_token": get_token(request)}
    sections = {"timeline": list_lines(row, who, {}, span), "logs": list_log_lines(row, {}, span)}
    return {
        key: render_to_string(
            "ringfence/parts/tab_section.html",
            {**common, **context, "tab": key, "still": key == "logs", "body": f"ringfence/parts/{key}.html"},
        )
        for key, context in sections.items()
    }


def hours_to_show(row: Connector, now_ms: int) -> int:
    """Return 24, or fewer for a younger connector, which would otherwise be a dot at the right edge."""
    oldest = oldest_ms(row.name)
    if oldest is None:
        return _FIRST_HOURS[0]
    return next((hours for hours in _FIRST_HOURS if now_ms - oldest <= hours * HOUR_MS), _FIRST_HOURS[-1])


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def moment(request: HttpRequest, name: str) -> HttpResponse:
    """Show what happened around `?at=`: events, and the version of the configuration."""
    row = find(name)
    at_ms = read_ms(request.GET.dict(), "at") or int(time.time() * 1000)
    context = {
        "connector": row,
        "may": principal_of(request).verbs_on(row.name),
        "at_ms": at_ms,
        **_look_at(row, at_ms),
    }
    return render(request, "ringfence/parts/history_moment.html", context)


def _look_at(row: Connector, at_ms: int) -> dict[str, Any]:
    events = Event.objects.filter(
        connector=row.name, time_ms__gte=at_ms - _AROUND_MS, time_ms__lte=at_ms + _AROUND_MS
    ).order_by("time_ms")
    return {"moment_events": list(events[:_EVENTS]), "moment_version": version_at(row.name, at_ms)}


urlpatterns = [
    path("", history),
    path("/moment", moment),
]
