"""The limits of webhook requests: how many wait for answers at once, and how large they are.

Pages and API keep the remaining connections and memory of the web process. `arriving_bodies` bounds what has not
arrived yet.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from typing import Any, Final

from ringfence.connectors.sdk.request_frames import MOST_HEADERS
from ringfence.web import request_body
from ringfence.web.hooks.limit_exceeded import LimitExceeded

MOST_AT_ONCE: Final = 600
"""The most requests of all webhooks that wait for answers, in this process."""
MOST_OF_ONE: Final = 300
MOST_OF_ADDRESS: Final = 150
"""Of one webhook and one address."""
MOST_HEADER_BYTES: Final = 32 * 1024
ANSWER_SECONDS: Final = 35.0
"""Longer than a task may take to answer."""
RETRY_AFTER_S: Final = 1
_LONGEST_NAME: Final = 1000
_MOST_DROPPED: Final = 64 * 1024
_ONE_SITE: Final = 64
"""The bits of an IPv6 address that belong to one site, which chooses the others as it likes."""

Headers = list[tuple[bytes, bytes]]


class Places:
    """The requests that wait for answers. A place is taken only once the body is there."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._by_address: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def take(self, name: str, address: str) -> Iterator[None]:
        """Take one of a webhook's places while the block runs. Raises `LimitExceeded` if none is free."""
        if (
            self._requests.total() >= MOST_AT_ONCE
            or self._requests[name] >= MOST_OF_ONE
            or self._by_address[name, address] >= MOST_OF_ADDRESS
        ):
            text = "Too many requests are waiting for answers. Send the request again."
            raise LimitExceeded(503, text, RETRY_AFTER_S, body_read=True)
        self._requests[name] += 1
        self._by_address[name, address] += 1
        try:
            yield
        finally:
            _count_down(self._requests, name)
            _count_down(self._by_address, (name, address))


def _count_down(counter: Counter[Any], key: object) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def sender_of(address: str) -> str:
    """Return whom an address stands for: itself, or the network of an IPv6 address."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    return address if ip.version == 4 else str(ip_network((ip, _ONE_SITE), strict=False))


def check_request(name: str, scope: Mapping[str, Any]) -> None:
    """Raise `LimitExceeded` for a request that no webhook accepts."""
    if not name or len(name) > _LONGEST_NAME:
        raise LimitExceeded(404, "There is no such webhook.")
    if scope["method"] != "POST":
        raise LimitExceeded(405, "A webhook accepts only POST.")
    headers = scope["headers"]
    if len(headers) > MOST_HEADERS:
        raise LimitExceeded(431, f"More than {MOST_HEADERS} headers are not read.")
    if sum(len(key) + len(value) for key, value in headers) > MOST_HEADER_BYTES:
        raise LimitExceeded(431, f"Headers of more than {MOST_HEADER_BYTES:,} bytes are not read.")


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
    """Return whether the sender keeps its connection after a refusal: the body was read, or is small enough to drop."""
    if refusal.status == 503:
        return refusal.body_read or 0 < request_body.content_length(headers) <= _MOST_DROPPED
    return refusal.status == 404
