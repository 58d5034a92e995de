"""The pages about all connectors: overview, list and its rows.

Fragments are made without the request, because they are shared: nothing about the first user may get into them.
"""

import csv
import io
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.projection.health import known_health
from ringfence.projection.models import Connector
from ringfence.web.lists.connector_query import PAGE_SIZE, choose, listing
from ringfence.web.lists.connector_rows import rows_of
from ringfence.web.lists.overview import list_log_lines, overview
from ringfence.web.live.fragment_cache import Fragment, FragmentResponse, parts, since_of
from ringfence.web.time_axis import read_span
from ringfence.web.views import is_fragment, with_token

_CSV_COLUMNS = (
    "name", "class", "health", "reason", "state", "target", "tasks", "tasks_running", "tasks_failed",
    "records_per_second", "records", "records_reported", "dead_letters", "skipped", "aborted_records_reported",
    "last_commit_ms", "generation", "data_as_of_ms",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def first(request: HttpRequest) -> HttpResponse:
    """`/ui`: the overview; `?from=&to=` or `?hours=`: the range of its time axis. `?at=`: see `web.live`."""
    who = principal_of(request)
    query = {name: request.GET[name] for name in ("from", "to", "hours") if name in request.GET}
    if not is_fragment(request):
        return render(request, "ringfence/overview.html", {**overview(who, query), "section": "overview"})

    def make() -> str:
        return render_to_string("ringfence/parts/overview.html", overview(who, query))

    key = ("overview", who.eyes, *sorted(query.items()))
    return FragmentResponse(parts.get(key, since_of(request.GET.get("at", "")), make))


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def logs(request: HttpRequest) -> HttpResponse:
    """Show the log lines of the range of Home's time axis: `?from=&to=` or `?hours=`. A part of Home."""
    span = read_span(request.GET.dict(), 1)
    return render(request, "ringfence/parts/overview_logs.html", list_log_lines(principal_of(request), span))


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def connectors(request: HttpRequest) -> HttpResponse:
    """The list: `?q=&state=&plugin=&sort=&page=`; with `&row=`, once or more, only those rows. `?at=`:
    see `web.live`.
    """
    who, since_ms = principal_of(request), since_of(request.GET.get("at", ""))
    query = {key: value for key, value in request.GET.dict().items() if key not in ("at", "row")}
    if not is_fragment(request):
        return render(request, "ringfence/connectors.html", {**_list(query, who), "section": "connectors"})
    if "row" in request.GET:
        return FragmentResponse(_rows(request.GET.getlist("row")[:PAGE_SIZE], who, since_ms))

    def make() -> str:
        return render_to_string("ringfence/parts/list.html", _list(query, who))

    return FragmentResponse(parts.get(("list", urlencode(sorted(query.items())), who.eyes), since_ms, make))


def _list(query: Mapping[str, str], who: Principal) -> dict[str, Any]:
    """Return the list's context. Links keep the address's parameters, except those that only fragments have."""
    return {**listing(query, who), "address": QueryDict(urlencode(query)), "may_create": who.may_somewhere(Verb.EDIT)}


def _rows(names: list[str], who: Principal, since_ms: int) -> Fragment:
    """Return a row for each of these connectors that exists and is visible. Many pages request the same
    rows at once.
    """
    visible_names = tuple(who.filter_names(names))

    def make() -> str:
        texts = {name: part.text for name in visible_names if (part := parts.find(("row", name), since_ms)) is not None}
        began_ms = parts.now_ms()
        missing = Connector.objects.filter(name__in=set(visible_names) - texts.keys(), known=True)
        for row in rows_of(missing.defer("config", "trace"), began_ms):
            text = render_to_string("ringfence/parts/row.html", {"row": row, "connector": row.connector})
            texts[row.connector.name] = parts.keep(("row", row.connector.name), began_ms, text).text
        return "".join(texts[name] for name in visible_names if name in texts)

    return parts.get(("rows", visible_names), since_ms, make)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def table(request: HttpRequest) -> HttpResponse:
    """Return the list, all pages of it, as CSV."""
    now_ms = int(time.time() * 1000)
    selection = choose(request.GET.dict(), principal_of(request), now_ms)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_CSV_COLUMNS)
    health = known_health()
    for row in rows_of(selection.sorted_rows.defer("config", "trace"), now_ms):
        one = row.connector
        values = [one.name, one.class_name, health.health_of(one), row.reason, one.state, one.target]
        rate = "" if row.rate is None else round(row.rate, 1)
        numbers = [one.task_count, one.tasks_running, one.tasks_failed, rate, one.records_total]
        numbers += [str(row.reported).lower(), one.dead_letters_total, one.skipped_total, one.aborted_records_total]
        writer.writerow(
            [*(_harmless(value) for value in values), *numbers, one.last_commit_ms, one.generation, row.data_as_of_ms]
        )
    headers = {"Content-Disposition": 'attachment; filename="connectors.csv"'}
    return HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers)


def _harmless(text: str) -> str:
    """Escape strings that a spreadsheet would run as formulas."""
    return f"'{text}" if text.startswith(_FORMULA) else text
