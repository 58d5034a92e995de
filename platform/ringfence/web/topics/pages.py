"""The views. Reading records is a POST, because it leaves an audit entry."""

from typing import Any
from urllib.parse import quote, urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from ringfence.access.authorise import Forbidden, principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.api.topics import (
    FIELDS,
    LEVELS,
    PLACES,
    RecordSearch,
    find_origin,
    find_reader,
    find_topic,
    is_administrator,
    list_topics,
    read_records,
)
from ringfence.api.v1.request_fields import whole
from ringfence.audit.trail import note
from ringfence.dispatch import Refusal
from ringfence.http.errors import ConnectError
from ringfence.web.topics.record_display import VIEWS, differences, fill_columns, find_columns, show_record
from ringfence.web.views import is_fragment, with_token

_LARGEST = 2**31 - 1


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def topics(request: HttpRequest) -> HttpResponse:
    """`?search=&page=&internal=`."""
    who = principal_of(request)
    page_text, text = request.GET.get("page", ""), request.GET.get("search", "").strip()
    number = int(page_text) if page_text.isascii() and page_text.isdigit() and len(page_text) < 7 else 1
    internal = request.GET.get("internal") == "true"
    context: dict[str, Any] = {
        "found": list_topics(who, text, number, internal=internal),
        "search": text,
        "internal": internal,
        "administrator": is_administrator(who),
        "section": "topics",
        "query": urlencode({"search": text, **({"internal": "true"} if internal else {})}),
    }
    template = "ringfence/topics/list.html" if is_fragment(request) else "ringfence/topics/list_page.html"
    return render(request, template, context)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@ensure_csrf_cookie
def topic(request: HttpRequest, name: str) -> HttpResponse:
    """Show a topic's details, and the form that reads records. Parameters in the address prefill the form."""
    try:
        row = find_topic(principal_of(request), name)
        problem = ""
    except Refusal as error:
        row, problem = None, error.message
    if row is None and not problem:
        raise Http404(f"There is no topic {name}, or you may not see it")
    fields = {key: request.GET[key] for key in FIELDS if key in request.GET}
    context = {"name": name, "path": quote(name, safe=""), "row": row, "problem": problem, "given": fields}
    choices = {"levels": LEVELS, "places": PLACES, "views": VIEWS, "section": "topics", "at_once": bool(fields)}
    return render(request, "ringfence/topics/topic_page.html", {**context, **choices})


@requires(POST=somewhere(Verb.VIEW_DATA).writing())
@require_POST
def records(request: HttpRequest, name: str) -> HttpResponse:
    """A page of records, as the form requests."""
    fields = {key: str(request.POST[key]) for key in FIELDS if key in request.POST}
    view = str(request.POST.get("view", VIEWS[0]))
    context: dict[str, Any] = {"name": name, "path": quote(name, safe=""), "given": fields, "section": "topics"}
    try:
        query = RecordSearch.parse(fields)
        reader = find_reader(request, name, fields.get("connector", ""))
        page = read_records(request, reader, query)
    except (ConnectError, Refusal, Forbidden) as error:
        return render_problem(request, "ringfence/topics/records.html", context, error)
    rows = [show_record(each) for each in page["records"]]
    columns = find_columns(rows)
    context |= {"columns": columns, "rows": [(row, fill_columns(row, columns)) for row in rows]}
    context |= {"found": page, "records": rows, "view": view if view in VIEWS else VIEWS[0], "wanted": query}
    context |= {"changes": differences(rows)} if view == "diff" else {}
    context["held"] = [each for each in page["partitions"] if each["end"] > each["stable"]]
    return render_part(request, "ringfence/topics/records.html", context)


@requires(POST=somewhere(Verb.VIEW_DATA).writing())
@require_POST
def origin(request: HttpRequest, name: str) -> HttpResponse:
    """Show where the record at `partition` and `offset` came from."""
    context: dict[str, Any] = {"name": name, "path": quote(name, safe=""), "section": "topics"}
    try:
        partition = whole(str(request.POST.get("partition", "")), "partition", 0, _LARGEST)
        offset = whole(str(request.POST.get("offset", "")), "offset")
        context |= {"partition": partition, "offset": offset}
        reader = find_reader(request, name, str(request.POST.get("connector", "")))
        note(request, f"looked at where {name}-{partition} offset {offset} comes from")
        record_origin = find_origin(request, reader, partition, offset)
    except (ConnectError, Refusal, Forbidden) as error:
        return render_problem(request, "ringfence/topics/origin.html", context, error)
    return render_part(request, "ringfence/topics/origin.html", {**context, "found": record_origin})


def render_problem(
    request: HttpRequest, template: str, context: dict[str, Any], error: ConnectError | Refusal | Forbidden
) -> HttpResponse:
    """Render the template with an error."""
    note(request, error.message)
    status = 403 if isinstance(error, Forbidden) else error.status if isinstance(error, Refusal) else error.status_code
    return render_part(request, template, {**context, "problem": error.message}, status)


def render_part(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """Render a part for htmx, otherwise a page of its own."""
    if is_fragment(request):
        return render(request, template, context, status=status)
    return render(request, "ringfence/topics/part_page.html", {**context, "part": template}, status=status)
