"""The limits of webhook requests: how many at once, how large, and how long they may take.

Pages and API keep the remaining connections and memory of the web process.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ringfence.web import request_body

MOST_AT_ONCE: Final = 600
"""The most concurrent requests of all webhooks in this process."""
MOST_OF_ONE: Final = 300
MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all bodies in memory."""
MOST_HEADERS: Final = 32 * 1024
BODY_SECONDS: Final = 15.0
ANSWER_SECONDS: Final = 35.0
"""Longer than a task may take to answer."""
RETRY_AFTER_S: Final = 1
_LONGEST_NAME: Final = 1000
_MOST_DROPPED: Final = 64 * 1024

Headers = list[tuple[bytes, bytes]]


class LimitExceeded(Exception):
    """An answer of the web process itself. retry_after: in seconds; 0: the header is not sent."""

    def __init__(self, status: int, text: str, retry_after: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_after = retry_after


class Usage:
    """The requests and bytes of all webhooks in this process. The methods raise `LimitExceeded` beyond a limit."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._bytes = 0

    @contextmanager
    def count_request(self, name: str) -> Iterator[None]:
        """Count one request of a webhook while the block runs."""
        if self._requests.total() >= MOST_AT_ONCE or self._requests[name] >= MOST_OF_ONE:
            raise LimitExceeded(
                503, "Too many requests are waiting for answers. Send the request again.", RETRY_AFTER_S
            )
        self._requests[name] += 1
        try:
            yield
        finally:
            self._requests[name] -= 1
            if not self._requests[name]:
                del self._requests[name]

    def add_bytes(self, count: int) -> None:
        """Count bytes of a body that are in memory from now on."""
        if self._bytes + count > MOST_BYTES:
            raise LimitExceeded(503, "Too much data waits for answers. Send the request again.", RETRY_AFTER_S)
        self._bytes += count

    def remove_bytes(self, count: int) -> None:
        """The inverse of `add_bytes`."""
        self._bytes -= count


def check_request(name: str, scope: Mapping[str, Any]) -> None:
    """Raise `LimitExceeded` for a request that no webhook accepts."""
    if not name or len(name) > _LONGEST_NAME:
        raise LimitExceeded(404, "There is no such webhook.")
    if scope["method"] != "POST":
        raise LimitExceeded(405, "A webhook accepts only POST.")
    if sum(len(key) + len(value) for key, value in scope["headers"]) > MOST_HEADERS:
        raise LimitExceeded(431, f"Headers of more than {MOST_HEADERS:,} bytes are not read.")


async def read_parts(receive: Any, headers: Headers, most: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. Raises `LimitExceeded`, or `RequestAborted` if the sender disconnected.

    most: the bytes that this webhook accepts.
    """
    size = 0
    if request_body.content_length(headers) > most:
        raise LimitExceeded(413, f"A body of more than {most:,} bytes is not read.")
    async for part in request_body.parts(receive):
        size += len(part)
        if size > most:
            raise LimitExceeded(413, f"A body of more than {most:,} bytes is not read.")
        yield part


def keeps_connection(refusal: LimitExceeded, headers: Headers) -> bool:
    """Return whether the sender keeps its connection after a refusal: the body is small enough to read and drop."""
    if refusal.status == 503:
        return 0 < request_body.content_length(headers) <= _MOST_DROPPED
    return refusal.status == 404
