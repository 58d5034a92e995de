"""HTTP connections whose headers must arrive in time and within limits; uvicorn alone would wait forever."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ringfence.access.loopback_peer import CONNECTION

HEADER_SECONDS = 10.0
"""Seconds, from the connection or from the first byte of a later request on it, to the end of the headers."""
HEADER_BYTES = 64 * 1024
"""Bytes of a request's address and all its headers."""
IDLE_SECONDS = 75
"""Seconds that a connection is kept after an answer: longer than clients and load balancers keep theirs. If the server
closes first, the next request may already be on its way."""
LAST_SECONDS = 1.0
LAST_BYTES = 1024 * 1024
"""After a refusal, at most this much input is discarded, for a limited time: closing at once would destroy the answer.
"""
CONNECTIONS = 1000
"""More connections than this are answered with 503: below a process's file limit, and above what pages need."""


class BoundedProtocol(HttpToolsProtocol):
    """Refuses a request whose headers are late (408) or too large (431), and closes the connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._until: asyncio.TimerHandle | None = None
        self._waiting_bytes = 0
        self._refused = False
        self._memory: dict[str, Any] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

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

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEADER_BYTES:
            self._refuse_headers()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
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
        text = f"The address and the headers have more than {HEADER_BYTES:,} bytes."
        self._refuse("431 Request Header Fields Too Large", text)

    def _refuse(self, status: str, text: str) -> None:
        self._refused = True
        self._on_done()
        if self._answers():
            self._close()  # an answer is being sent, and there is no room for another
            return
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
        self.transport.write(f"{head}Connection: close\r\n\r\n{text}".encode())
        self.transport.write_eof()
        self._until = self.loop.call_later(LAST_SECONDS, self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
