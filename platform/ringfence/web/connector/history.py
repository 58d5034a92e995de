"""The History tab: all that a connector did on one time axis, and the details of one moment."""

import time
from typing import Any, Final, NamedTuple

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe

from ringfence.access.authorise import principal_of
from ringfence.access.routes import on_connector, requires
from ringfence.access.verbs import Verb
from ringfence.api import history_series
from ringfence.http.errors import ConnectError
from ringfence.projection.models import Connector, Event
from ringfence.web.connector.tab_page import tab
from ringfence.web.views import find

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_FIRST_HOURS: Final = (1, 6, 24)
_AROUND_MS: Final = 5 * 60_000
_EVENTS: Final = 50
_PRESETS: Final = (("1 h", 1), ("6 h", 6), ("24 h", 24), ("3 days", 72), ("30 days", 720))


class Preset(NamedTuple):
    """A range to choose, in milliseconds. is_current: whether it is the current one."""

    words: str
    from_ms: int
    to_ms: int
    is_current: bool


@tab("history", still=True)
def history(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Show the axis; the page's script fetches the series. `?from=&to=&at=` in milliseconds."""
    now_ms = int(time.time() * 1000)
    to_ms = _time_of(request, "to", now_ms)
    from_ms = _time_of(request, "from", 0) or to_ms - hours_to_show(row, now_ms) * _HOUR_MS
    presets = [
        Preset(words, now_ms - hours * _HOUR_MS, now_ms, abs(to_ms - from_ms - hours * _HOUR_MS) < _MINUTE_MS)
        for words, hours in _PRESETS
    ]
    at_ms = _time_of(request, "at", 0)
    context = {"from_ms": from_ms, "to_ms": to_ms, "presets": presets, "at_ms": at_ms}
    return {**context, **(_look_at(row, at_ms) if at_ms else {})}


def hours_to_show(row: Connector, now_ms: int) -> int:
    """Return 24, or fewer for a younger connector, which would otherwise be a dot at the right edge."""
    oldest = history_series.oldest_ms(row.name)
    age_ms = now_ms - oldest if oldest is not None else _DAY_MS
    return next((hours for hours in _FIRST_HOURS if age_ms <= hours * _HOUR_MS), _FIRST_HOURS[-1])


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def series(request: HttpRequest, name: str) -> HttpResponse:
    """Return the points between two times, as JSON."""
    row = find(name)
    to_ms = _time_of(request, "to", int(time.time() * 1000))
    try:
        points = history_series.find_series(row.name, _time_of(request, "from", to_ms - _DAY_MS), to_ms)
    except ConnectError as error:
        return JsonResponse({"error": error.message}, status=error.status_code)
    return JsonResponse(points)


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def moment(request: HttpRequest, name: str) -> HttpResponse:
    """Show what happened around `?at=`: events, and the version of the configuration."""
    row = find(name)
    at_ms = _time_of(request, "at", int(time.time() * 1000))
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
    return {"moment_events": list(events[:_EVENTS]), "moment_version": history_series.version_at(row.name, at_ms)}


def _time_of(request: HttpRequest, name: str, default: int) -> int:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default


urlpatterns = [
    path("", history),
    path("/series", series),
    path("/moment", moment),
]
