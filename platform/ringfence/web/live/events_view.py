"""`/ui/events`: the stream of an open page, for as long as its account may see it."""

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from ringfence.access.authorise import Forbidden, authorise, principal_of
from ringfence.access.identify import Nobody, identify_again
from ringfence.access.principal import EVERYBODY_HERE, Principal, Verb
from ringfence.access.routes import requires, somewhere
from ringfence.web.live.places import PlacedStream, TooManyStreams, process_places
from ringfence.web.live.streams import stream

_RETRY_SECONDS = 10


@sync_to_async
def _renew(request: HttpRequest, name: str | None, verb: Verb) -> Principal | None:
    """Identify the sender again; None if its token, session or grant is no longer valid."""
    try:
        who = identify_again(request)
    except DatabaseError:
        return principal_of(
            request
        )  # keep the stream: nothing new can be shown now, and afterwards all pages would reconnect at once
    finally:
        close_old_connections()
    if isinstance(who, Nobody):
        return None
    return who if (who.may_somewhere(verb) if name is None else who.may(verb, name)) else None


@requires(GET=somewhere(Verb.VIEW))
def events(request: HttpRequest) -> HttpResponseBase:
    """`/ui/events?connector=<name>`; without a name, about every connector; `?about=audit`: about the audit trail.
    `&tab=tasks`: with each task's numbers.
    """
    name, audit = request.GET.get("connector"), request.GET.get("about") == "audit"
    verb = Verb.VIEW_CONFIG if audit else Verb.VIEW
    if name is not None:
        authorise(request, verb, name)
    elif not principal_of(request).may_somewhere(verb):
        raise Forbidden(principal_of(request), verb, None)
    who = principal_of(request)
    try:
        place = process_places().take(who.name, _session_of(request, who))
    except TooManyStreams as many:
        text = f"{many.message} Close one of them.\n"
        return HttpResponse(text, status=429, content_type="text/plain", headers={"Retry-After": str(_RETRY_SECONDS)})
    tasks = request.GET.get("tab") == "tasks"
    body = PlacedStream(stream(name, who, lambda: _renew(request, name, verb), audit=audit, tasks=tasks), place)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(body, content_type="text/event-stream", headers=headers)


def _session_of(request: HttpRequest, who: Principal) -> str:
    """Return what tells the account's sessions and tokens apart; "" if no login is required."""
    if who is EVERYBODY_HERE:
        return ""
    if who.via.startswith("session"):
        return f"session {request.session.session_key}"
    return f"{who.name} {who.via}"
