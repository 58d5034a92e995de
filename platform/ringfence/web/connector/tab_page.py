"""What the tabs of a connector share: access, page or fragment, and the confirmation of an action."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.topic_grant_check import may_look_at
from ringfence.audit.trail import entry_of, note
from ringfence.dispatch import Refusal
from ringfence.history.models import ConfigVersion
from ringfence.http.errors import ConnectError
from ringfence.projection.models import Connector, find_connector
from ringfence.web.connector.header import facts
from ringfence.web.connector.tab_groups import find_tab, tab_groups
from ringfence.web.views import is_fragment, render_gone

Body = Callable[[HttpRequest, Connector], dict[str, Any]]
View = Callable[[HttpRequest, str], HttpResponse]

# The order matters: an open dialog delays a refresh.
_CLOSE = '{"ringfence-close": null, "ringfence-refresh": null}'


def stamp_of(row: Connector) -> str:
    """Return a value that changes with the configuration or the target state. A still tab then offers to reload."""
    return f"{row.config_offset}.{row.target}.{row.generation}.{int(row.fencing)}"


def tab(key: str, *verbs: Verb, still: bool = False, follows: bool = False) -> Callable[[Body], View]:
    """Make a tab's view from a function that returns its context. verbs: permissions needed beside `view`.

    still: only the part above the tabs is refreshed, for tabs with forms. follows: the table of a still tab is
    refreshed as well, except for elements with `data-kept`.
    """

    def make(body: Body) -> View:
        @requires(GET=on_connector(Verb.VIEW, *verbs))
        @require_safe
        @ensure_csrf_cookie
        @wraps(body)
        def view(request: HttpRequest, name: str) -> HttpResponse:
            row = find_connector(name)
            if row is None:
                return render_gone(request, name)
            if not find_tab(key).is_for(row):
                return _render_no_tab(request, row, key)
            return show(request, row, key, body(request, row), still=still, follows=follows)

        return view

    return make


def _render_no_tab(request: HttpRequest, row: Connector, key: str) -> HttpResponse:
    """Answer for a tab that this connector does not have. A former connector of the same name may have had it."""
    context = {"text": f"Connector {row.name} has no {find_tab(key).word}.", "tone": "bad", "title": "No such page"}
    template = "ringfence/parts/notice.html" if is_fragment(request) else "ringfence/error.html"
    return render(request, template, context, status=404)


def show(
    request: HttpRequest,
    row: Connector,
    key: str,
    values: dict[str, Any],
    *,
    still: bool = False,
    follows: bool = False,
    status: int = 200,
) -> HttpResponse:
    """Render a tab as a page or, for htmx, the part of it. `inner` in the context: the templates of smaller parts, by
    the id of their target element; `opened`: what sections of its group show from the start, by their keys.
    """
    content = values if "look" in values else {**facts(row), **values}
    context = {**content, **_frame(request, row, key, content), "still": still, "follows": follows}
    context["body"] = f"ringfence/parts/{key or 'connector_overview'}.html"
    if not is_fragment(request):
        return render(request, "ringfence/tab.html", context, status=status)
    target = request.headers.get("HX-Target", "")
    section = f"section-{key or 'overview'}"
    if target in (section, f"{section}-live"):  # beside another tab of its group, without the head
        part = "ringfence/parts/tab_section.html" if target == section else context["body"]
        return render(request, part, {**context, "is_section": True}, status=status)
    inner = context.get("inner", {}).get(target)
    if inner:
        return render(request, inner, context, status=status)
    return render(request, context["body"] if still else "ringfence/parts/tab.html", context, status=status)


def _frame(request: HttpRequest, row: Connector, key: str, header: dict[str, Any]) -> dict[str, Any]:
    groups = tab_groups(key, row)
    opened = header.get("opened", {})
    sections = [
        {"key": each.key, "word": each.word, "content": opened.get(each.key, "")}
        for group in groups
        if group.current
        for each in group.tabs
        if each.key != key
    ]
    frame = {"section": "connectors", "groups": groups, "sections": sections, "tab": key, "stamp": stamp_of(row)}
    return {**frame, **trouble_context(request, row, header)}


def trouble_context(request: HttpRequest, row: Connector, header: dict[str, Any]) -> dict[str, Any]:
    """Return what the cards about a connector's troubles need beside `facts`: what the user may do and read."""
    who = principal_of(request)
    may = who.verbs_on(row.name)
    topics = {failure.record.topic for failure in header["failures"] if failure.record is not None}
    readable = {each for each in topics if Verb.VIEW_DATA in may and may_look_at(each, row.name, who)}
    earlier = bool(topics) and ConfigVersion.objects.filter(connector=row.name).count() > 1
    return {"may": may, "readable_topics": readable, "may_go_back": earlier, "failed_on_a_record": bool(topics)}


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def head(request: HttpRequest, name: str) -> HttpResponse:
    """Render the part above a still tab: `?tab=&stamp=`. It warns if the tab below shows outdated data."""
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    header = facts(row)
    context = {**header, **_frame(request, row, request.GET.get("tab", ""), header)}
    context["moved"] = request.GET.get("stamp", "") not in ("", context["stamp"])
    return render(request, "ringfence/parts/connector_head.html", context)


def render_confirmation(
    request: HttpRequest, row: Connector, part: str, content: dict[str, Any], status: int = 200
) -> HttpResponse:
    """Render a confirmation: a dialog's content for htmx, otherwise a page."""
    context = {**content, "connector": row, "section": "connectors", "part": f"ringfence/parts/{part}.html"}
    context["may"] = principal_of(request).verbs_on(row.name)
    return render(request, context["part"] if is_fragment(request) else "ringfence/ask.html", context, status=status)


def render_done(request: HttpRequest, row: Connector, text: str, tab_key: str, **more: Any) -> HttpResponse:
    """Report what was done, in one line with its audit entry. `hint`: the next step; `undo`: the address that undoes
    it. The dialog closes; without htmx, redirect to the tab.
    """
    if not is_fragment(request):
        return HttpResponseRedirect(f"/ui/connectors/{quote(row.name, safe='')}/{tab_key}")
    may = principal_of(request).verbs_on(row.name)
    context = {"connector": row, "text": text, "entry": entry_of(request, row.name), "may": may, **more}
    response = render(request, "ringfence/parts/done.html", context)
    response["HX-Retarget"], response["HX-Reswap"] = "#notices", "innerHTML"
    response["HX-Trigger-After-Swap"] = _CLOSE  # only after the swap: closing clears the form that sent the request
    return response


def render_refused(request: HttpRequest, error: ConnectError | Refusal) -> HttpResponse:
    """Report a refusal and its reason among the notices; without htmx, on a page."""
    status = record_failure(request, error)
    template = "ringfence/parts/notice.html" if is_fragment(request) else "ringfence/error.html"
    context = {"tone": "bad", "text": error.message, "title": "The action failed", "code": status}
    return render(request, template, context, status=status)


def record_failure(request: HttpRequest, error: ConnectError | Refusal, reason: str = "") -> int:
    """Write the failure, with the given reason, to the audit trail. Returns the HTTP status for the answer."""
    note(request, f"{reason}. {error.message}" if reason else error.message)
    return error.status if isinstance(error, Refusal) else error.status_code
