"""Pages of the console that refresh automatically: one address serves the page and, for htmx, its live part."""

from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from ringfence.access.authorise import principal_of
from ringfence.access.principal import Verb
from ringfence.console.confirm_page import page
from ringfence.web.views import is_fragment

CLUSTER, AUDIT, CLOCK = "cluster", "audit", "clock"
"""What triggers a refresh: changes of connectors, workers and the leader; entries of the audit trail, which every
change of an account, grant, token or session leaves; or only the time, every ten seconds, if each refresh queries
Kafka.
"""


def render_live(request: HttpRequest, body: str, title: str, follows: str, **context: Any) -> HttpResponse:
    """body: the name of `console/<body>.html`, whose live part is `console/parts/<body>.html`."""
    if is_fragment(request):
        return render(request, f"console/parts/{body}.html", {"title": title, **context})
    context |= {"part": f"console/parts/{body}.html", "part_address": quote(request.path)}
    return page(request, f"console/{body}.html", title, stream=_stream(request, follows), **context)


def _stream(request: HttpRequest, follows: str) -> str:
    """Return the address of the events; "" if the account may not follow them, so that the page polls."""
    who = principal_of(request)
    if follows == CLOCK or not who.may_somewhere(Verb.VIEW):
        return ""
    if follows == AUDIT:
        return "/ui/events?about=audit" if who.may_somewhere(Verb.VIEW_CONFIG) else ""
    return "/ui/events"
