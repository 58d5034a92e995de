"""One connection from this web process to a listening task, with many concurrent requests."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from ringfence.connectors.api import Endpoint
from ringfence.connectors.sdk import request_frames as frames
from ringfence.connectors.sdk.log_limit import LogLimit

log = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 3.0
_limit: Final = LogLimit()
"""By address: while a task is away, each request tries again."""
_MOST_UNSENT: Final = 64 * 1024 * 1024


class Unreachable(Exception):
    """The task did not answer, so it is unknown whether the request is committed."""


class Link:
    """A connection, from `open` to `close`. Any number of concurrent `ask` calls, on one event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.most_body = 0
        """The most bytes that the task accepts; known once the link is open."""
        self.needed_headers: frozenset[str] | None = None
        """The headers that the task looks at; None if it does not say so, as one of an earlier version."""
        self.closed = False
        self.failed_at: float | None = None
        """When the task could not be reached, on the monotonic clock."""
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._opening: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Connect and greet, once for all concurrent callers. Raises `Unreachable`."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, self._writer = await asyncio.open_connection(self.endpoint.host, self.endpoint.port)
                greeting = await frames.greet_task(reader, self._writer, self.endpoint.id, self.endpoint.secret)
            self.most_body = int(greeting["max_body"])
            if "headers" in greeting:
                self.needed_headers = frozenset(map(str, greeting["headers"]))
        except (OSError, TimeoutError, EOFError, KeyError, TypeError, ValueError, frames.NotTrusted) as error:
            where = f"{self.endpoint.host}:{self.endpoint.port}"
            _limit.warning(log, "The task at %s does not accept requests: %s", where, error, subject=where)
            self.failed_at = time.monotonic()
            self.close()
            raise Unreachable from error
        self._reading = asyncio.create_task(self._read(reader))

    async def ask(self, headers: Sequence[tuple[str, str]], body: bytes, seconds: float) -> dict[str, Any]:
        """Return the task's answer: `status`, `text`, `again`. Raises `Unreachable`.

        headers: with names in lower case; the task gets those that it needs, and only the first of each name.
        """
        writer = self._writer
        if self.closed or writer is None or writer.transport.get_write_buffer_size() > _MOST_UNSENT:
            raise Unreachable
        self._number += 1
        number = self._number
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send(writer, frames.pack({"id": number, "headers": self._choose(headers)}, body))
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise Unreachable from None
        finally:
            self._waiting.pop(number, None)

    def _choose(self, headers: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        if self.needed_headers is None:
            return headers
        first: dict[str, str] = {}
        for name, value in headers:
            if name in self.needed_headers:
                first.setdefault(name, value)
        return [*first.items()]

    def _send(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        """Raises `Unreachable`: the task may have cut the connection a moment ago."""
        if writer.is_closing():
            self.close()
            raise Unreachable
        try:
            writer.write(frame)
        except (OSError, RuntimeError) as error:  # uvloop's, of a closed transport
            self.close()
            raise Unreachable from error

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                header, _ = await frames.read_frame(reader, frames.MOST_HEADER, 0)
                waiting = self._waiting.get(header["id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(header)
        except (OSError, EOFError, KeyError, ValueError, frames.NotTrusted):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection. All waiting callers get `Unreachable`."""
        self.closed = True
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            self._reading.cancel()
        for each in self._waiting.values():
            if not each.done():
                each.set_exception(Unreachable())
