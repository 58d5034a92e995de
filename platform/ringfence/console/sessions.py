"""Your own sessions, and all sessions for users who may administer everything: origin and last use. Each
can be ended.
"""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods, require_safe

from ringfence.access import logins
from ringfence.access.authorise import WHOLE, principal_of, requires
from ringfence.access.models import LoginSession
from ringfence.access.principal import Verb
from ringfence.audit.trail import record_change
from ringfence.connectors.plural_forms import write_count
from ringfence.console.page_parts import AUDIT, ActionResult, ConfirmPage, Table, links, moment, render_live, run

_LIST = "/ui/settings/sessions"
_MOST_ROWS = 500


@requires(GET=WHOLE)
@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    """List the sessions, last used first."""
    who = principal_of(request)
    rows = logins.visible_to(who, who.may_everywhere(Verb.ADMIN))[:_MOST_ROWS]
    headers = ("Account", "By", "Address", "Browser", "Since", "Last used", "Act")
    table = Table(headers, [_row(request, row) for row in rows], [row.pk for row in rows])
    more: dict[str, Any] = {"says": _says(), "empty": "There are no sessions."}
    if any(row.account == who.name and not logins.is_current(row, request) for row in rows):
        more["new"] = (f"{_LIST}others/end/", "End my other sessions")
    return render_live(request, "table", "Sessions", AUDIT, table=table, **more)


def _says() -> str:
    idle = settings.SESSION_IDLE_MINUTES
    idle_clause = f" or has not been used for {_span(idle)}" if idle else ""
    return f"A session ends automatically when it is {_span(settings.SESSION_HOURS * 60)} old{idle_clause}."


def _span(minutes: int) -> str:
    size, word = next(unit for unit in ((1440, "day"), (60, "hour"), (1, "minute")) if minutes % unit[0] == 0)
    count = minutes // size
    return f"{write_count(count, word)}"


def _row(request: HttpRequest, row: LoginSession) -> list[Any]:
    by = "this session" if logins.is_current(row, request) else row.via
    act = links((f"{_LIST}{row.pk}/end/", "End"), asking=("End",))
    return [row.account, by, row.address, row.agent, moment(row.created_ms), moment(row.seen_ms), act]


@requires(GET=WHOLE, POST=WHOLE.writing())
@require_http_methods(["GET", "POST"])
def end(request: HttpRequest, number: int) -> HttpResponse:
    """End a session: one's own, or any with `admin` everywhere."""
    who = principal_of(request)
    row = logins.visible_to(who, who.may_everywhere(Verb.ADMIN)).filter(pk=number).first()
    if row is None:
        raise Http404("This session has ended already")
    says = [f"The session of {row.account} from {row.address}, last used {moment(row.seen_ms)}, becomes invalid."]
    if logins.is_current(row, request):
        says.append("It is the one that you use now: you have to log in again.")

    def act(_values: dict[str, Any]) -> ActionResult:
        record_change(
            request, before={"account": row.account, "address": row.address}, after=None, action="end session"
        )
        logins.end(row)
        return ActionResult("The session is ended.")

    return run(request, ConfirmPage("End a session", "End it", _LIST, says), act)


@requires(GET=WHOLE, POST=WHOLE.writing())
@require_http_methods(["GET", "POST"])
def end_others(request: HttpRequest) -> HttpResponse:
    """End all other sessions of the user."""
    who = principal_of(request)
    says = ["Every other session of yours becomes invalid: other browsers and machines have to log in again."]

    def act(_values: dict[str, Any]) -> ActionResult:
        count = logins.end_others(who, request)
        record_change(request, before={"account": who.name, "sessions": count}, after=None, action="end sessions")
        return ActionResult(f"{write_count(count, 'other session')} of yours ended.")

    return run(request, ConfirmPage("End your other sessions", "End them", _LIST, says), act)


urls = [
    path("settings/sessions", sessions),
    path("settings/sessions/others/end", end_others),
    path("settings/sessions/<int:number>/end", end),
]
