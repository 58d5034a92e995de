"""One line for each request that this web process has answered, and the id that leads on from it.

The id is the sender's `X-Request-ID`, if it can stand in a log line, or a new one; the answer has it. An answer that
stays open, as an event stream does, has a line when it begins and one when it ends. What is refused before its headers
are read (too many connections, headers that are too large or too late) has none.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings

from ringfence import telemetry
from ringfence.access.client_address import address_in
from ringfence.fencing import request_context
from ringfence.fencing.request_context import TRACEPARENT, RequestContext
from ringfence.log_format import FIELDS
from ringfence.web.door import PROBES

Send = Callable[[Any], Awaitable[None]]

ID_HEADER: Final = b"x-request-id"
_QUIET: Final = ("/static/",)
_SAFE: Final = "/:@!$&'()*+,;=~%[]"
_LONGEST: Final = 1000

log = logging.getLogger(__name__)


class Exchange:
    """A request and its answer, as far as it has come."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = scope
        self._began = time.monotonic()
        self._status: int | None = None
        self._first_byte_s = 0.0
        self._bytes = 0
        self._complete = self._stream = False
        self.route = ""
        """The pattern of the path that the view has; "" where none was asked."""
        self.account = ""
        """Who sent it, or how they got in without an account; "" if nobody is known."""
        headers = {name: value for name, value in scope["headers"] if name in (ID_HEADER, TRACEPARENT.encode())}
        texts = {name: value.decode("latin-1") for name, value in headers.items()}
        self.context = RequestContext(
            request_context.read_id(texts.get(ID_HEADER)) or request_context.new_id(),
            request_context.read_trace(texts.get(TRACEPARENT.encode())),
        )

    @property
    def path(self) -> str:
        """The path without its query, which may hold secrets; nothing in it can end a log line."""
        raw: bytes = self._scope.get("raw_path") or str(self._scope["path"]).encode()
        return quote(raw.partition(b"?")[0], safe=_SAFE)[:_LONGEST]

    @property
    def _is_quiet(self) -> bool:
        """Whether it comes from something that asks all the time, or is a part of a page."""
        return self.path in PROBES or self.path.startswith(_QUIET)

    def note(self, message: Mapping[str, Any]) -> None:
        """Note what is sent."""
        if message["type"] == "http.response.start":
            self._status = int(message["status"])
            self._first_byte_s = time.monotonic() - self._began
        elif message["type"] == "http.response.body":
            self._bytes += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)

    def trace(self) -> AbstractContextManager[None]:
        """Trace the exchange, until its answer is complete or, of a stream, its end."""
        if self._is_quiet:
            return nullcontext()
        method, peer = str(self._scope["method"]), address_in(self._scope)[:100]
        return telemetry.span(
            method, "server", {"http.request.method": method, "url.path": self.path, "client.address": peer}
        )

    def stays_open(self) -> None:
        """Note that the answer is a stream, which ends when somebody leaves."""
        self._stream = True
        self._say("opened")

    def end(self) -> None:
        """Write the line, and note the rest about the span."""
        attributes: dict[str, str | int] = {"http.route": self.route, "user.name": self.account}
        if self._status is not None:
            attributes["http.response.status_code"] = self._status
        telemetry.note(
            {name: value for name, value in attributes.items() if value != ""},
            name=f"{self._scope['method']} {self.route}".strip(),
            failed=(self._status or 0) >= 500,
        )
        if self._status is None:
            self._say("no answer: the sender left")
        elif self._stream:
            self._say("closed")
        else:
            self._say("" if self._complete else "incomplete: the sender left")

    def _say(self, outcome: str) -> None:
        if not settings.ACCESS_LOG:
            return
        path, level = self.path, logging.DEBUG if self._is_quiet else logging.INFO
        if not log.isEnabledFor(level):
            return
        total_ms = (time.monotonic() - self._began) * 1000
        fields = {
            "method": self._scope["method"],
            "path": path,
            "status": self._status,
            "ms": round(self._first_byte_s * 1000, 1),
            "total_ms": round(total_ms, 1),
            "bytes": self._bytes,
            "account": self.account,
            "address": address_in(self._scope)[:100],
            **({"outcome": outcome} if outcome else {}),
        }
        log.log(
            level,
            "%s %s %s %.1f ms account=%s address=%s%s",
            quote(str(fields["method"]))[:20],
            path,
            "-" if self._status is None else self._status,
            total_ms,
            quote(self.account, safe=_SAFE)[:_LONGEST] or "-",
            quote(str(fields["address"]), safe=_SAFE),
            f" ({outcome})" if outcome else "",
            extra={FIELDS: fields},
        )


@contextmanager
def follow(scope: Mapping[str, Any], send: Send) -> Iterator[tuple[Exchange, Send]]:
    """Work for this request within the block, and write its line at the end. Returns a `send` to answer with."""
    exchange = Exchange(scope)

    async def note_and_send(message: Any) -> None:
        if message["type"] == "http.response.start":
            id_header = (ID_HEADER, exchange.context.id.encode())
            message = {**message, "headers": [*message.get("headers", ()), id_header]}
        await send(message)
        exchange.note(message)

    with request_context.working_for(exchange.context), exchange.trace():
        exchange.context = request_context.current()
        try:
            yield exchange, note_and_send
        finally:
            exchange.end()
