"""`/ui/events`: the stream of an open page, for as long as its account may see it."""

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.http import HttpRequest, StreamingHttpResponse

from ringfence.access.authorise import authorise, principal_of
from ringfence.access.identify import Nobody, identify_again
from ringfence.access.principal import Principal
from ringfence.access.routes import requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.web.live.streams import stream


@sync_to_async
def _renew(request: HttpRequest, name: str | None) -> Principal | None:
    """Who asks, as of now; None where the token, session or grant behind the stream has gone."""
    try:
        who = identify_again(request)
    except DatabaseError:
        return principal_of(request)  # nothing new is shown in the meantime, and all pages would come again at once
    finally:
        close_old_connections()
    if isinstance(who, Nobody):
        return None
    return who if (who.may_somewhere(Verb.VIEW) if name is None else who.may(Verb.VIEW, name)) else None


@requires(GET=somewhere(Verb.VIEW))
def events(request: HttpRequest) -> StreamingHttpResponse:
    """`/ui/events?connector=<name>`; without a name, about every connector."""
    name = request.GET.get("connector")
    if name is not None:
        authorise(request, Verb.VIEW, name)
    body = stream(name, principal_of(request), lambda: _renew(request, name))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(body, content_type="text/event-stream", headers=headers)
