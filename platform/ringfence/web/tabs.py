"""The tabs of a connector's page beside its overview: links, each with an address of its own."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from ringfence.access.authorise import principal_of
from ringfence.access.routes import on_connector, requires
from ringfence.access.verbs import Verb
from ringfence.mirror.models import Connector
from ringfence.web import generations as fencing_rounds
from ringfence.web import lanes, story
from ringfence.web.detail import facts
from ringfence.web.views import TABS, gone, is_fragment


def _show(request: HttpRequest, name: str, tab: str, shown: dict[str, Any]) -> HttpResponse:
    context = {
        **shown,
        "section": "connectors",
        "may": principal_of(request).verbs_on(name),
        "tabs": TABS,
        "tab": tab,
        "body": f"ringfence/parts/{tab}.html",
    }
    return render(request, "ringfence/parts/tab.html" if is_fragment(request) else "ringfence/tab.html", context)


def _found(name: str) -> Connector | None:
    return Connector.objects.filter(name=name, known=True).first()


@requires(GET=on_connector(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def transactions(request: HttpRequest, name: str) -> HttpResponse:
    """A lane per task: `?page=`."""
    row = _found(name)
    if row is None:
        return gone(request, name)
    above = facts(row)
    drawn = lanes.transactions(row, request.GET.get("page", ""), above["now_ms"])
    return _show(request, name, "transactions", {**above, **drawn})


@requires(GET=on_connector(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def generations(request: HttpRequest, name: str) -> HttpResponse:
    """Each generation's configuration against the one before, and its fencing round: `?page=`."""
    row = _found(name)
    if row is None:
        return gone(request, name)
    may_read = principal_of(request).may(Verb.VIEW_CONFIG, name)
    told = fencing_rounds.generations(row, request.GET.get("page", ""), with_config=may_read)
    return _show(request, name, "generations", {**facts(row), **told})


@requires(GET=on_connector(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def timeline(request: HttpRequest, name: str) -> HttpResponse:
    """Events and audit entries in one list: `?kind=&page=`."""
    row = _found(name)
    if row is None:
        return gone(request, name)
    told = story.story(row, principal_of(request), request.GET.get("kind", ""), request.GET.get("page", ""))
    return _show(request, name, "timeline", {**facts(row), **told})
