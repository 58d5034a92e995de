"""One's sessions, and all of them for those who may administer everything: where from, used when; each can be ended."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods, require_safe

from ringfence.access import logins
from ringfence.access.authorise import principal_of
from ringfence.access.models import LoginSession
from ringfence.access.routes import ANYONE, requires
from ringfence.access.verbs import Verb
from ringfence.audit.trail import tell
from ringfence.console.confirm_page import ActionResult, ConfirmPage, page, run
from ringfence.console.tables import Table, links, moment

_LIST = "/console/sessions/"
_SHOWN = 500


@requires(GET=ANYONE)
@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    """Newest use first."""
    who = principal_of(request)
    rows = logins.visible_to(who, who.may_everywhere(Verb.ADMIN))[:_SHOWN]
    headers = ("Account", "By", "Address", "Browser", "Since", "Last used", "Act")
    table = Table(headers, [_row(request, row) for row in rows])
    says = "A session ends by itself after two weeks, or when nobody has used it for the time that the server allows."
    return page(
        request, "console/table.html", "Sessions", table=table, says=says, empty="Nobody is logged in with a session."
    )


def _row(request: HttpRequest, row: LoginSession) -> list[Any]:
    by = "this session" if logins.is_current(row, request) else row.via
    act = links((f"{_LIST}{row.pk}/end/", "End"))
    return [row.account, by, row.address, row.agent, moment(row.created_ms), moment(row.seen_ms), act]


@requires(GET=ANYONE, POST=ANYONE.writing())
@require_http_methods(["GET", "POST"])
def end(request: HttpRequest, number: int) -> HttpResponse:
    """Log somebody out there: oneself, or anybody with `admin` everywhere."""
    who = principal_of(request)
    row = logins.visible_to(who, who.may_everywhere(Verb.ADMIN)).filter(pk=number).first()
    if row is None:
        raise Http404("This session has ended already")
    says = [f"The session of {row.account} from {row.address}, last used {moment(row.seen_ms)}, is worth nothing then."]
    if logins.is_current(row, request):
        says.append("It is the one that you use now: you have to log in again.")

    def act(_values: dict[str, Any]) -> ActionResult:
        tell(request, before={"account": row.account, "address": row.address}, after=None, action="end session")
        logins.end(row)
        return ActionResult("The session is ended.")

    return run(request, ConfirmPage("End a session", "End it", _LIST, says), act)


urls = [path("sessions/", sessions), path("sessions/<int:number>/end/", end)]
