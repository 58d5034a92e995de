"""Sends webhooks at a fixed rate: `python -m benchmarks.hook_senders PORT NAME RATE SECONDS`. Prints the result as
JSON.

Requests are due at fixed times, regardless of earlier ones (an open loop): a latency is measured from the time at which
the request was due. Connections are kept alive; a new one is opened if none is free.
"""

import asyncio
import json
import secrets
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Final, cast

import uvloop

_TICK_SECONDS: Final = 0.001
_LAST_SECONDS: Final = 20.0
MOST_CONNECTIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class SenderResult:
    """p50, p99: of all answered requests, in milliseconds. statuses: the number of responses by status. cut: requests
    whose connection ended before the response. late: requests without a free connection.
    """

    p50: float
    p99: float
    statuses: dict[str, int]
    cut: int
    late: int


class Sender(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._due: float | None = None
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass of asyncio's

    def send(self, due: float, request: bytes) -> None:
        assert self._transport is not None
        self._due = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator or self._due is None:
            return
        headers = head.lower()
        size = int(headers.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < size:
            return
        self._load.take(self._due, head[9:12].decode())
        self._due, self._received = None, b""
        if b"connection: close" not in headers:
            self._load.idle.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._due is not None:
            self._load.cut += 1
        if self in self._load.idle:
            self._load.idle.remove(self)
        self._load.connections -= 1


class Load:
    """One run."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self._name = name
        self._run = secrets.token_hex(8).encode()
        """The prefix of the idempotency keys."""
        self.idle: list[Sender] = []
        self.connections = self.cut = 0
        self._late = 0
        self._latencies: list[float] = []
        self._statuses: Counter[str] = Counter()

    def take(self, due: float, status: str) -> None:
        self._latencies.append((asyncio.get_running_loop().time() - due) * 1000)
        self._statuses[status] += 1

    async def run(self, rate: int, seconds: float) -> SenderResult:
        await asyncio.gather(*(self._open() for _ in range(50)))
        loop = asyncio.get_running_loop()
        start, count = loop.time() + 0.1, int(rate * seconds)
        number = 0
        while number < count:
            while number < count and (due := start + number / rate) <= loop.time():
                await self._send(number, due)
                number += 1
            await asyncio.sleep(_TICK_SECONDS)
        end = loop.time() + _LAST_SECONDS
        while len(self._latencies) + self.cut + self._late < count and loop.time() < end:
            await asyncio.sleep(0.01)
        latencies = sorted(self._latencies) or [0.0]
        return SenderResult(
            latencies[len(latencies) // 2],
            latencies[len(latencies) * 99 // 100],
            dict(self._statuses),
            self.cut,
            self._late,
        )

    async def _send(self, number: int, due: float) -> None:
        if not self.idle and self.connections < MOST_CONNECTIONS:
            await self._open()
        if not self.idle:
            self._late += 1
            return
        body = b'{"event": %d, "note": "%s"}' % (number, b"abcdefghij" * 20)
        self.idle.pop().send(
            due,
            b"POST /hooks/%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer opensesame\r\nIdempotency-Key: %s-%d\r\nContent-Length: %d\r\n\r\n%s"
            % (self._name.encode(), self._port, self._run, number, len(body), body),
        )

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self.connections += 1
        _, sender = await loop.create_connection(lambda: Sender(self), "127.0.0.1", self._port)
        self.idle.append(sender)


def main() -> None:
    port, name, rate, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    print(json.dumps(asdict(uvloop.run(Load(port, name).run(rate, seconds)))))


if __name__ == "__main__":
    main()
