"""Answers each request in one thread of a pool, from its first middleware to its last.

Django's own ASGI handler changes threads for every synchronous middleware, in both directions: that costs six
milliseconds a request, and two hundred open pages send many. It also occupies a thread, and with it a database
connection, for the whole life of an event stream; here a stream needs neither.

An address may send a few requests a second without any credentials: each one takes a thread before it is refused.
"""

import asyncio
import contextlib
import functools
import io
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import set_script_prefix

from ringfence import after_answer, quotas
from ringfence.access.client_address import address_in, group_of
from ringfence.access.identify import Nobody, identify_again
from ringfence.access.principal import Principal
from ringfence.after_answer import Work
from ringfence.fencing.request_context import RequestContext, working_for
from ringfence.metrics.web_process import requests
from ringfence.middleware import METRICS, PLACE
from ringfence.web import access_log, request_body
from ringfence.web.access_log import Exchange
from ringfence.web.door import PROBES, process_door
from ringfence.web.hooks.links import Links, look_up
from ringfence.web.hooks.receiver import Receiver, hook_name

BURST: Final = 300
PER_SECOND: Final = 30.0
"""A login page with its files is a dozen requests."""
_MOST_KNOWN: Final = 10_000


def has_credentials(headers: Iterable[tuple[bytes, bytes]], session_cookie: str) -> bool:
    """Return whether there is something to be checked: a header, or a session's cookie."""
    mark = f"{session_cookie}=".encode()
    return any(name == b"authorization" or (name == b"cookie" and mark in value) for name, value in headers)


class AnonymousRate:
    """The rates of this process, for one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def allows(self, address: str) -> bool:
        """Count one request. Returns whether it is answered."""
        group, now = group_of(address), self._clock()
        left, then = self._left.pop(group, (float(BURST), now))
        left = min(BURST, left + (now - then) * PER_SECOND)
        if len(self._left) >= _MOST_KNOWN:  # the one that was heard of the longest time ago has its whole burst again
            del self._left[next(iter(self._left))]
        self._left[group] = max(0.0, left - 1), now
        return left >= 1


THREADS = 168
"""The most requests at once. A request that waits for the leader or a plugin occupies its thread until the answer."""

PROBE_THREADS = 4
"""For probes alone, and as many for metrics: they are answered while all other threads wait for something."""
LIVE = "/health/live"
"""Answered without any thread: that the process answers is all it tells."""

T = TypeVar("T")
Scope = MutableMapping[str, Any]


class PooledHandler(ASGIHandler):
    """An ASGI application of synchronous views. A view may return an asynchronous stream."""

    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
        self._probe_threads = ThreadPoolExecutor(PROBE_THREADS, thread_name_prefix="probe")
        self._scrape_threads = ThreadPoolExecutor(PROBE_THREADS, thread_name_prefix="scrape")
        self._rate = AnonymousRate()
        self._receiver = Receiver(Links(functools.partial(self.in_thread, look_up)))

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError(f"Only HTTP is answered here, not {scope['type']}")
        if scope["path"] == LIVE and scope["method"] in ("GET", "HEAD"):
            await _say_alive(scope["method"], send)
            return
        with (
            process_door().count_request(address_in(scope)),
            requests.measure(scope, send) as counted,
            access_log.follow(scope, counted) as (exchange, noted),
        ):
            await self._answer_one(scope, receive, noted, exchange)

    async def _answer_one(self, scope: Scope, receive: Any, send: Any, exchange: Exchange) -> None:
        hook = hook_name(scope)
        if hook is not None:
            await self._receiver(hook, scope, receive, send)
            return
        try:
            self._check_rate(scope)
            request_body.check_credentials(scope["headers"])
            is_known = functools.partial(self.in_thread, _is_known, scope)
            body = await request_body.read(scope["headers"], receive, is_known, scope["path"])
        except RequestAborted:
            return
        except request_body.BodyRejected as error:
            await request_body.refuse(error, receive, send)
            return
        threads = self._threads_for(scope["path"])
        loop = asyncio.get_running_loop()
        response, work = await loop.run_in_executor(threads, self._answer, scope, body, exchange)
        account: str | None = getattr(response, "ringfence_waits", None)
        if account is not None and (place := await quotas.READING.wait(account, quotas.READING_PATIENCE)) is not None:
            with _offering(place, scope):
                response, work = await loop.run_in_executor(threads, self._answer, scope, body, exchange)
        try:
            if response.streaming:
                exchange.stays_open()
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)
        finally:
            if work:
                loop.run_in_executor(threads, _finish, work, exchange.context)

    def _threads_for(self, path: str) -> ThreadPoolExecutor:
        if path == METRICS:
            return self._scrape_threads
        return self._probe_threads if path in PROBES else self._threads

    def _check_rate(self, scope: Scope) -> None:
        """Raise `BodyRejected` for too many requests without credentials of one address. Where none are required
        (`ringfence up`), only this machine is let in.
        """
        if settings.NO_LOGIN or scope["path"] in PROBES:
            return
        if has_credentials(scope["headers"], settings.SESSION_COOKIE_NAME) or self._rate.allows(address_in(scope)):
            return
        raise request_body.BodyRejected(429, "Too many requests without a login from this address: send them slower.")

    async def in_thread(self, what: Callable[..., T], *arguments: Any) -> T:
        """Call it in one of the pool's threads, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, what, *arguments)

    def _answer(self, scope: Scope, body: Any, exchange: Exchange) -> tuple[HttpResponseBase, list[Work]]:
        """Answer in a thread of the pool, whose database connections are kept for its next request. Return also what
        is to be done behind the answer.
        """
        with working_for(exchange.context), after_answer.collect() as work:
            try:
                return self._compute(scope, body, exchange), work
            except BaseException:
                after_answer.carry_out(work)
                raise

    def _compute(self, scope: Scope, body: Any, exchange: Exchange) -> HttpResponseBase:
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        if request is None:
            body.close()
        response = refusal if request is None else self.get_response(request)
        assert response is not None  # one of the two is set
        who: Principal | None = getattr(request, "ringfence_principal", None)
        match = None if request is None else request.resolver_match
        exchange.route = "" if match is None else f"/{match.route.removeprefix('/')}"
        exchange.account = "" if who is None else who.name or who.via
        if isinstance(response, StreamingHttpResponse):
            if response.is_async:
                return response
            response = _read_whole(response)
        response.close()
        return response

    async def _stream(self, response: HttpResponseBase, receive: Any, send: Any) -> None:
        """Send until the end, or until the client disconnects."""
        sending = asyncio.create_task(self.send_response(response, send))
        disconnect = asyncio.create_task(receive())
        try:
            await asyncio.wait((sending, disconnect), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, disconnect):
                task.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)
            response.close()


@contextlib.contextmanager
def _offering(place: quotas.Hold, scope: Scope) -> Iterator[None]:
    """Offer a place to the request, which takes it with its next try, unless its sender is somebody else by now."""
    scope[PLACE] = place
    try:
        yield
    finally:
        if scope.pop(PLACE, None) is not None:
            place.release()


def _finish(work: list[Work], request: RequestContext) -> None:
    with working_for(request):
        after_answer.carry_out(work)
    close_old_connections()


async def _say_alive(method: str, send: Any) -> None:
    body = b'{"status":"alive"}'
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body, "more_body": False})


def _is_known(scope: Scope) -> bool:
    """Return whether the headers alone authenticate the sender."""
    try:
        return not isinstance(identify_again(ASGIRequest(scope, io.BytesIO())), Nobody)
    except (DatabaseError, UnicodeDecodeError):
        return False


def _read_whole(stream: StreamingHttpResponse) -> HttpResponse:
    """Read the response into memory, which is fine because our files are small. Closes the streamed response."""
    try:
        response = HttpResponse(b"".join(stream), status=stream.status_code, reason=stream.reason_phrase)
    finally:
        stream.close()
    response.headers, response.cookies = stream.headers, stream.cookies
    return response
