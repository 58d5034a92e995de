"""What the tabs of a connector share: who may see them, page or fragment, and the question before an act."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from ringfence.access.authorise import principal_of
from ringfence.access.routes import on_connector, requires
from ringfence.access.verbs import Verb
from ringfence.api.topic_grants import may_look_at
from ringfence.audit.trail import entry_of, note
from ringfence.dispatch import Refused
from ringfence.history.models import ConfigVersion
from ringfence.http.errors import ConnectError
from ringfence.projection.models import Connector
from ringfence.web.connector.header import facts
from ringfence.web.connector.tab_groups import find_tab, tab_groups
from ringfence.web.views import is_fragment, render_gone

Body = Callable[[HttpRequest, Connector], dict[str, Any]]
View = Callable[[HttpRequest, str], HttpResponse]

# In this order: what is open holds a refresh back.
_CLOSE = '{"ringfence-close": null, "ringfence-refresh": null}'


def find_connector(name: str) -> Connector | None:
    return Connector.objects.filter(name=name, known=True).first()


def stamp_of(row: Connector) -> str:
    """Differs once there is another configuration or wished state: a still tab then offers to show it."""
    return f"{row.config_offset}.{row.target}.{row.generation}.{int(row.fencing)}"


def tab(key: str, *verbs: Verb, still: bool = False, follows: bool = False) -> Callable[[Body], View]:
    """Makes a tab's view out of what it shows. `verbs`: those needed beside `view`.

    `still`: nothing is swapped under the reader but what stands above the tabs; for tabs with something to fill in.
    `follows`: its table follows all the same, except for what is `data-kept`.
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
    """To an address that this connector does not have: it may have been another one's, of the same name."""
    context = {"text": f"Connector {row.name} has no {find_tab(key).word}.", "tone": "bad", "title": "No such page"}
    template = "ringfence/parts/notice.html" if is_fragment(request) else "ringfence/error.html"
    return render(request, template, context, status=404)


def show(
    request: HttpRequest,
    row: Connector,
    key: str,
    shown: dict[str, Any],
    *,
    still: bool = False,
    follows: bool = False,
    status: int = 200,
) -> HttpResponse:
    """A tab as a page, or to htmx the very part that the page includes. `inner` in what is shown: the templates of
    still smaller parts, by the id of the element that they are for."""
    known = shown if "look" in shown else {**facts(row), **shown}
    context = {**known, **_frame(request, row, key, known), "still": still, "follows": follows}
    context["body"] = f"ringfence/parts/{key or 'connector_overview'}.html"
    if not is_fragment(request):
        return render(request, "ringfence/tab.html", context, status=status)
    inner = context.get("inner", {}).get(request.headers.get("HX-Target", ""))
    if inner:
        return render(request, inner, context, status=status)
    return render(request, context["body"] if still else "ringfence/parts/tab.html", context, status=status)


def _frame(request: HttpRequest, row: Connector, key: str, known: dict[str, Any]) -> dict[str, Any]:
    who = principal_of(request)
    may = who.verbs_on(row.name)
    topics = {failure.record.topic for failure in known["failures"] if failure.record is not None}
    readable = {each for each in topics if Verb.VIEW_DATA in may and may_look_at(each, row.name, who)}
    frame = {"section": "connectors", "may": may, "groups": tab_groups(key, row), "tab": key, "stamp": stamp_of(row)}
    earlier = bool(topics) and ConfigVersion.objects.filter(connector=row.name).count() > 1
    told = {"readable_topics": readable, "may_go_back": earlier, "failed_on_a_record": bool(topics)}
    return {**frame, **told}


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def head(request: HttpRequest, name: str) -> HttpResponse:
    """What stands above a still tab: `?tab=&stamp=`; says so where the tab below shows what is not there any more."""
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    known = facts(row)
    context = {**known, **_frame(request, row, request.GET.get("tab", ""), known)}
    context["moved"] = request.GET.get("stamp", "") not in ("", context["stamp"])
    return render(request, "ringfence/parts/connector_head.html", context)


def ask(request: HttpRequest, row: Connector, part: str, shown: dict[str, Any], status: int = 200) -> HttpResponse:
    """The question before an act: a dialog's content to htmx, a page of its own else."""
    context = {**shown, "connector": row, "section": "connectors", "part": f"ringfence/parts/{part}.html"}
    context["may"] = principal_of(request).verbs_on(row.name)
    return render(request, context["part"] if is_fragment(request) else "ringfence/ask.html", context, status=status)


def render_done(request: HttpRequest, row: Connector, text: str, tab_key: str, **more: Any) -> HttpResponse:
    """What was done, in one line with its audit entry; `hint` says what to do next, `undo` is the address that undoes
    it. The dialog closes; without htmx the tab is shown again."""
    if not is_fragment(request):
        return HttpResponseRedirect(f"/ui/connectors/{quote(row.name, safe='')}/{tab_key}")
    may = principal_of(request).verbs_on(row.name)
    context = {"connector": row, "text": text, "entry": entry_of(request, row.name), "may": may, **more}
    response = render(request, "ringfence/parts/done.html", context)
    response["HX-Retarget"], response["HX-Reswap"] = "#notices", "innerHTML"
    response["HX-Trigger-After-Swap"] = _CLOSE  # not before: the form that asks is cleared with it
    return response


def render_refused(request: HttpRequest, error: ConnectError | Refused) -> HttpResponse:
    """That it was not done, and why, where the notices stand; a page without htmx."""
    status = record_failure(request, error)
    template = "ringfence/parts/notice.html" if is_fragment(request) else "ringfence/error.html"
    context = {"tone": "bad", "text": error.message, "title": "The action failed", "code": status}
    return render(request, template, context, status=status)


def record_failure(request: HttpRequest, error: ConnectError | Refused, reason: str = "") -> int:
    """The status to answer with; the trail is told, too, and keeps the reason that was given."""
    note(request, f"{reason}. {error.message}" if reason else error.message)
    return error.status if isinstance(error, Refused) else error.status_code
