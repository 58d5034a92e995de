"""The Logs tab: the newest log lines of a connector's tasks and of workers about it, and its log level."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.v1.logs import at_least, level_now, set_level
from ringfence.dispatch import Refusal
from ringfence.fencing.topics.connector_logs import LEVELS
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import Masker
from ringfence.projection.event_rows import KEPT_LINES
from ringfence.projection.models import Connector, LogLine
from ringfence.web.connector.tab_page import render_done, render_refused, tab
from ringfence.web.time_axis import Span, is_asked, read_span
from ringfence.web.views import find

PAGE_SIZE = 100
MINUTES = (5, 15, 60, 240)


@tab("logs", still=True)
def logs(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """`?level=&task=&q=&page=`, with `?from=&to=` or `?hours=` of that range. Invalid values are ignored."""
    query = request.GET.dict()
    return list_log_lines(row, query, read_span(query, 1) if is_asked(query) else None)


def list_log_lines(row: Connector, query: Mapping[str, str], span: Span | None) -> dict[str, Any]:
    """Return the context of the list. query: the address's filters; span: None for all times."""
    level, task, search = (query.get(key, "") for key in ("level", "task", "q"))
    lines = LogLine.objects.filter(connector=row.name).order_by("-id")
    total = lines.count()
    if span is not None:
        lines = lines.filter(time_ms__gte=span.from_ms, time_ms__lt=span.to_ms)
    threshold = level.upper() if level.upper() in LEVELS else ""
    number = task if task.isascii() and task.isdigit() and len(task) < 9 else ""
    if threshold:
        lines = lines.filter(at_least(threshold))
    if number:
        lines = lines.filter(task=int(number))
    if search:
        lines = lines.filter(message__icontains=search.replace("\x00", ""))
    page: Page[LogLine] = Paginator(lines, PAGE_SIZE).get_page(query.get("page", ""))
    masker, config = Masker([row.class_name]), row.settings
    current_level, until_ms = level_now(row)
    filters = {key: value for key, value in (("level", threshold), ("task", number), ("q", search)) if value}
    return {
        "inner": {"log-lines": "ringfence/parts/log_lines.html"},
        "page": page,
        "lines": [(line, masker.scrub(line.message, config)) for line in page],
        "total": total,
        "most": KEPT_LINES,
        "chosen": threshold,
        "number": number,
        "search": search,
        "filtered": bool(filters),
        "span": span,
        "range": span.query if span else "",
        "query": "".join(f"{part}&" for part in (urlencode(filters), span.query if span else "") if part),
        "levels": LEVELS,
        "minutes": MINUTES,
        "told": current_level,
        "until_ms": until_ms,
    }


@requires(POST=on_connector(Verb.OPERATE).writing())
@require_POST
def level(request: HttpRequest, name: str) -> HttpResponse:
    """Set the tasks' log level to `level`, for `minutes`."""
    row = find(name)
    threshold, minutes = str(request.POST.get("level", "")), str(request.POST.get("minutes", ""))
    try:
        if not (minutes.isascii() and minutes.isdigit() and len(minutes) < 6):
            raise bad_request("Give the number of minutes.")
        until_ms = set_level(name, threshold, int(minutes), principal_of(request).name)
    except (ConnectError, Refusal) as error:
        return render_refused(request, error)
    hint = f"After {minutes} minutes it returns to INFO automatically." if until_ms else ""
    return render_done(request, row, f"Its tasks log {threshold} and above.", "logs", hint=hint)


urlpatterns = [
    path("", logs),
    path("/level", level),
]
