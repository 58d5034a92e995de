"""HTTP connections whose headers have to arrive in time and within bounds; uvicorn waits for them for ever."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEADER_SECONDS = 10.0
"""From the connection, or from the first byte of a later request on it, to the end of the headers."""
HEADER_BYTES = 64 * 1024
CONNECTIONS = 1000
"""More than this at once are answered with 503: below what a process may have open, and above what pages need."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection that keeps its headers back, or sends ever more of them."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._until: asyncio.TimerHandle | None = None
        self._waiting_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn declares it without None
        if cycle is not None and not cycle.response_complete:
            self._on_done()  # its headers are there; the application bounds the body
            return
        self._waiting_bytes += len(data)
        if self._waiting_bytes > HEADER_BYTES:
            self._close()
        elif self._until is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_done()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._until = self.loop.call_later(HEADER_SECONDS, self._close)

    def _on_done(self) -> None:
        self._waiting_bytes = 0
        if self._until is not None:
            self._until.cancel()
            self._until = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
