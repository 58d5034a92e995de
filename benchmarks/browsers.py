"""Open pages without browsers: requests what `live.js` requests, over two connections per page, like a browser."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True)
class Answer:
    """`first_s`: seconds until the first byte."""

    status: int
    body: bytes
    first_s: float


class Connection:
    """An HTTP/1.1 connection to one address, kept open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def _send(self, path: str) -> asyncio.StreamReader:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        reader, writer = self._streams
        lines = (f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}", "HX-Request: true", "Accept-Encoding: gzip")
        writer.write("\r\n".join((*lines, "", "")).encode())
        await writer.drain()
        return reader

    async def get(self, path: str) -> Answer:
        """Return the whole response. A connection that the server has closed in the meantime is reopened, as in
        browsers.
        """
        began = time.perf_counter()
        try:
            reader = await self._send(path)
            status, headers = await _head(reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            reader = await self._send(path)
            status, headers = await _head(reader)
        first = time.perf_counter() - began
        if "content-length" in headers:
            return Answer(status, await reader.readexactly(int(headers["content-length"])), first)
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return Answer(status, body, first)

    async def events(self, path: str) -> AsyncIterator[tuple[str, str]]:
        """Yield (name, data) of each server-sent event."""
        reader = await self._send(path)
        status, _ = await _head(reader)
        assert status == 200
        name = ""
        while raw := await reader.readline():  # sizes and ends of chunks are lines, too
            line = raw.decode().strip("\r\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, line.removeprefix("data: ")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    text = (await reader.readuntil(b"\r\n\r\n")).decode()
    status, *lines = text.strip().split("\r\n")
    parts = (line.partition(":") for line in lines)
    return int(status.split()[1]), {key.lower(): value.strip() for key, _, value in parts}


@dataclass(slots=True)
class OpenPage:
    """An open page. on_page: the connectors on it. connector: the one whose page it is; else it is the list, which
    fetches single rows or, if more than numbers changed, the whole list again.
    """

    port: int
    on_page: frozenset[str]
    connector: str = ""
    arrived: list[tuple[float, float]] = field(default_factory=list)
    """When each response was requested, and when it was complete; for numbers in an event: when the server looked them
    up, and when they arrived.
    """
    fetched: int = 0
    failed: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        stream, parts = Connection(self.port), Connection(self.port)
        try:
            async for name, data in stream.events(f"/ui/events{f'?connector={self.connector}' * bool(self.connector)}"):
                if name == "hello":
                    self.ready.set()
                elif name == "changed":
                    await self._fetch(parts, [("at", data)])
                elif name == "numbers":
                    self.arrived.append((json.loads(data)["at"] / 1000, time.time()))
                    self.fetched += len(data)
                elif name == "rows":
                    change = json.loads(data)
                    names = self.on_page if change["names"] is None else self.on_page.intersection(change["names"])
                    if names:
                        await self._fetch(
                            parts, [("at", str(change["at"])), *(("row", name) for name in sorted(names))]
                        )
        finally:
            stream.close()
            parts.close()

    async def _fetch(self, parts: Connection, more: list[tuple[str, str]]) -> None:
        request_s = time.time()
        path = f"/ui/connectors/{self.connector}/" if self.connector else f"/ui/connectors?{urlencode(more)}"
        answer = await parts.get(path)
        self.failed += answer.status != 200
        self.fetched += len(answer.body)
        self.arrived.append((request_s, time.time()))

    def delay(self, changed: float) -> float | None:
        """Return the time from a change to the first complete response to a later request; None if there is none."""
        return next((arrived - changed for request_s, arrived in self.arrived if request_s >= changed), None)
