"""HTTP connections whose headers must arrive in time and within limits; uvicorn alone would wait forever."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ringfence.access.client_address import address_in
from ringfence.access.loopback_peer import CONNECTION
from ringfence.web.door import Door, State, process_door

HEADER_SECONDS = 10.0
"""Seconds, from the connection or from the first byte of a later request on it, to the end of the headers."""
HEADER_BYTES = 64 * 1024
"""Bytes of a request's address and all its headers."""
HEADERS = 100
"""The most headers of a request, as in other web servers: each costs more than its bytes."""
IDLE_SECONDS = 75
"""Seconds that a connection is kept after an answer: longer than clients and load balancers keep theirs. If the server
closes first, the next request may already be on its way."""
LAST_SECONDS = 1.0
LAST_BYTES = 1024 * 1024
"""After a refusal, at most this much input is discarded, for a limited time: closing at once would destroy the answer.
"""
RETRY_SECONDS = 1
"""After a refusal for want of room."""


class EndingServer(uvicorn.Server):
    """Calls `on_end` when it has answered all. What stands behind its `run` is not reached: the signal that ended it is
    raised again.
    """

    def __init__(self, config: uvicorn.Config, on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_end = on_end

    async def shutdown(self, sockets: "list[socket.socket] | None" = None) -> None:
        await super().shutdown(sockets)
        await asyncio.to_thread(self._on_end)


class BoundedProtocol(HttpToolsProtocol):
    """Refuses a request whose headers are late (408) or too large (431), or that has no room (503), and closes the
    connection.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._until: asyncio.TimerHandle | None = None
        self._waiting_bytes = 0
        self._refused = False
        self._door: Door[BoundedProtocol] = process_door()
        self._memory: dict[str, Any] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        victim = self._door.open(self, self.client[0] if self.client else "")
        if victim is not None:
            victim.drop()

    def drop(self) -> None:
        """Close the connection without an answer: there is no room for it any more."""
        self._on_done()
        self._close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)[CONNECTION] = self._memory

    def data_received(self, data: bytes) -> None:
        if self._refused:
            self._waiting_bytes += len(data)
            if self._waiting_bytes > LAST_BYTES:
                self._close()
            return
        super().data_received(data)
        self._count(len(data))

    def _count(self, size: int) -> None:
        if self._refused:
            return
        if self._answers():
            self._on_done()  # its headers have arrived; the application bounds the body
            return
        self._waiting_bytes += size
        if self._waiting_bytes > HEADER_BYTES:
            self._refuse_headers()
        elif self._until is None:
            self._wait()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._refused:
            return
        if len(self.headers) >= HEADERS:
            self._refuse_headers()
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._refused:
            return
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEADER_BYTES:
            self._refuse_headers()
        elif reason := self._refusal():
            self._refuse("503 Service Unavailable", reason, f"Retry-After: {RETRY_SECONDS}\r\n")
        else:
            super().on_headers_complete()
            self._door.change(self, State.ARRIVING)

    def _refusal(self) -> str:
        path = self.url.partition(b"?")[0].decode("latin-1")
        return self._door.refusal(self, path, address_in({"headers": self.headers, "client": self.client}))

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            super().on_message_complete()
            if self._answers():
                self._door.change(self, State.ANSWERING)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._answers():
            self._door.change(self, State.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.close(self)
        self._on_done()
        super().connection_lost(exc)

    def _answers(self) -> bool:
        """Return whether a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type lacks None
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._until = self.loop.call_later(HEADER_SECONDS, self._refuse_late)

    def _on_done(self) -> None:
        self._waiting_bytes = 0
        if self._until is not None:
            self._until.cancel()
            self._until = None

    def _refuse_late(self) -> None:
        if self._waiting_bytes:
            text = f"The headers did not arrive within {HEADER_SECONDS:g} s."
            self._refuse("408 Request Timeout", text)
        else:  # an idle kept-alive connection
            self._close()

    def _refuse_headers(self) -> None:
        text = f"There are more than {HEADERS} headers, or they and the address have more than {HEADER_BYTES:,} bytes."
        self._refuse("431 Request Header Fields Too Large", text)

    def _refuse(self, status: str, text: str, headers: str = "") -> None:
        self._refused = True
        self._on_done()
        if self._answers():
            self._close()  # an answer is being sent, and there is no room for another
            return
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n{headers}"
        )
        self.transport.write(f"{head}Connection: close\r\n\r\n{text}".encode())
        self.transport.write_eof()
        self._until = self.loop.call_later(LAST_SECONDS, self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
