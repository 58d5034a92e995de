"""Bodies on their way: bounded in number and in bytes, in all and by address, and each must keep a minimum rate.

A body that arrives takes none of its webhook's places, so slow senders keep nobody out. If one body too many arrives,
the oldest one of the address that sends the most gives way: honest bodies are complete within moments.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

MOST_AT_ONCE: Final = 600
"""The most bodies that arrive at once, in this process."""
MOST_OF_ADDRESS: Final = 100
MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all bodies in memory, until their requests are answered."""
BODY_SECONDS: Final = 15.0
FIRST_SECONDS: Final = 5.0
"""Without a byte; each byte that has arrived gives more time."""
BYTES_PER_SECOND: Final = 8 * 1024
_RETRY_AFTER_S: Final = 1


class LimitExceeded(Exception):
    """An answer of the web process itself. retry_after: in seconds; 0: the header is not sent. body_read: the body has
    arrived, so the sender keeps its connection.
    """

    def __init__(self, status: int, text: str, retry_after: int = 0, *, body_read: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_after = retry_after
        self.body_read = body_read


class ArrivingBody:
    """One body, until its request is answered."""

    def __init__(self, bodies: "ArrivingBodies", address: str, timeout: asyncio.Timeout, now: float) -> None:
        self.address = address
        self.content = bytearray()
        self.gives_way = False
        self._bodies = bodies
        self._timeout = timeout
        self._began = now

    def add(self, part: bytes) -> None:
        """Keep the next part. Raises `LimitExceeded` if there is no room for it, `TimeoutError` if it is too late."""
        if self._timeout.expired() or self.gives_way:
            raise TimeoutError
        self._bodies.make_room(self, len(part))
        self.content += part
        arrived = len(self.content)
        self._timeout.reschedule(self._began + min(BODY_SECONDS, FIRST_SECONDS + arrived / BYTES_PER_SECOND))

    def give_way(self) -> None:
        """Stop reading: the reader gets an error as soon as it waits."""
        if not self._timeout.expired():
            self.gives_way = True
            self._timeout.reschedule(0)


class ArrivingBodies:
    """All bodies of this process's webhooks. For one event loop."""

    def __init__(self) -> None:
        self._arriving: dict[ArrivingBody, None] = {}
        """From the oldest to the newest."""
        self._by_address: Counter[str] = Counter()
        self._bytes = 0

    @asynccontextmanager
    async def arrival(self, address: str) -> AsyncIterator[ArrivingBody]:
        """Read one body inside the block. Raises `LimitExceeded` if it is too slow, or gives way to others.

        The bytes of a body that has arrived count until `release`.
        """
        loop = asyncio.get_running_loop()
        if self._by_address[address] >= MOST_OF_ADDRESS:
            self._drop_oldest(address)
        elif len(self._arriving) >= MOST_AT_ONCE:
            self._drop_oldest(self._by_address.most_common(1)[0][0])
        timeout = asyncio.timeout(FIRST_SECONDS)
        body = ArrivingBody(self, address, timeout, loop.time())
        self._arriving[body] = None
        self._by_address[address] += 1
        try:
            async with timeout:
                yield body
            if body.gives_way:
                raise TimeoutError
        except TimeoutError:
            self.release(body)
            raise _refusal(body) from None
        except BaseException:
            self.release(body)
            raise
        finally:
            self._remove(body)

    def make_room(self, body: ArrivingBody, size: int) -> None:
        """Count bytes that are in memory from now on. Raises `LimitExceeded` if no other body can give way for them."""
        while self._bytes + size > MOST_BYTES:
            others = [each for each in self._arriving if each is not body and each.content]
            if not others or body.gives_way:
                raise LimitExceeded(503, "Too much data waits for answers. Send the request again.", _RETRY_AFTER_S)
            sizes: Counter[str] = Counter()
            for each in others:
                sizes[each.address] += len(each.content)
            most = sizes.most_common(1)[0][0]
            self._drop(next(each for each in others if each.address == most))
        self._bytes += size

    def release(self, body: ArrivingBody) -> None:
        """Its request is answered: its bytes are no longer in memory."""
        self._bytes -= len(body.content)
        body.content = bytearray()

    def _drop_oldest(self, address: str) -> None:
        self._drop(next(each for each in self._arriving if each.address == address))

    def _drop(self, body: ArrivingBody) -> None:
        self._remove(body)
        self.release(body)
        body.give_way()

    def _remove(self, body: ArrivingBody) -> None:
        if body in self._arriving:
            del self._arriving[body]
            self._by_address[body.address] -= 1
            if not self._by_address[body.address]:
                del self._by_address[body.address]


def _refusal(body: ArrivingBody) -> LimitExceeded:
    if body.gives_way:
        return LimitExceeded(503, "Too many bodies arrive at once. Send the request again.", _RETRY_AFTER_S)
    return LimitExceeded(
        408,
        f"The body is too slow: it must arrive within {BODY_SECONDS:.0f} s, begin within {FIRST_SECONDS:.0f} s and "
        f"keep {BYTES_PER_SECOND:,} bytes per second.",
    )
