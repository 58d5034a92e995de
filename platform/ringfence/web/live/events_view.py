"""`/ui/events`: the stream of an open page, for as long as its account may see it.

The open streams of a session, of an account, and of this process are limited. Each one occupies a connection for as
long as its page is open. A page without a stream fetches its parts by itself.
"""

import threading
from collections import Counter
from collections.abc import AsyncIterator
from functools import lru_cache

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from ringfence.access.authorise import Forbidden, authorise, principal_of, requires, somewhere
from ringfence.access.identify import Nobody, identify_again
from ringfence.access.principal import EVERYBODY_HERE, Principal, Verb
from ringfence.environment import RequestLimits
from ringfence.web.live.streams import stream


class TooManyStreams(Exception):
    """message: for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Places:
    """The open streams. Thread-safe."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._sessions: Counter[str] = Counter()
        self._accounts: Counter[str] = Counter()

    def take(self, account: str, session: str) -> "Place":
        """Occupy a place until it is left. session: "" without one. Raises `TooManyStreams`."""
        limits = self._limits
        with self._lock:
            if self._accounts.total() >= limits.streams_total:
                raise TooManyStreams("This server has no room for more event streams.")
            if self._accounts[account] >= limits.streams_per_account:
                raise TooManyStreams(f"{limits.streams_per_account} event streams of your account are open.")
            if session and self._sessions[session] >= limits.streams_per_session:
                raise TooManyStreams(f"{limits.streams_per_session} event streams of your session or token are open.")
            self._accounts[account] += 1
            if session:
                self._sessions[session] += 1
        return Place(self, account, session)

    def leave(self, account: str, session: str) -> None:
        with self._lock:
            for counter, key in ((self._accounts, account), (self._sessions, session)):
                counter[key] -= 1
                if counter[key] <= 0:
                    del counter[key]


class Place:
    """One stream's place. `leave` may be called again."""

    def __init__(self, places: Places, account: str, session: str) -> None:
        self._places = places
        self._of = account, session
        self._active = True

    def leave(self) -> None:
        if self._active:
            self._active = False
            self._places.leave(*self._of)


class PlacedStream:
    """Events that occupy a place. Django calls `close` with the response, whether or not anything was read."""

    def __init__(self, events: AsyncIterator[str], place: Place) -> None:
        self._events = events
        self._place = place

    def __aiter__(self) -> AsyncIterator[str]:
        return self._events

    def close(self) -> None:
        self._place.leave()


@lru_cache(maxsize=1)
def process_places() -> Places:
    """Return the places of this process."""
    return Places(settings.REQUEST_LIMITS)


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
