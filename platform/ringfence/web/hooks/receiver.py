"""`/hooks/<connector>`: requests from anywhere, without a session, with limits of their own.

The path is the connector's name, so two connectors cannot claim the same path. The web process decides nothing: it
bounds what it reads, and forwards request and answer. Signature, idempotency key and secret are checked by the task.

Limited are how many wait for answers at once, and how large they are: pages and API keep the remaining connections and
memory of the web process. `arriving_bodies` bounds what has not arrived yet.
"""

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from typing import Any, Final
from urllib.parse import quote

from django.core.exceptions import RequestAborted
from django.db import Error as DatabaseError

from ringfence.access.client_address import address_in
from ringfence.connectors.sdk.log_limit import LogLimit
from ringfence.connectors.sdk.request_frames import MOST_HEADERS
from ringfence.encryption import NoKey
from ringfence.web import request_body
from ringfence.web.hooks.arriving_bodies import ArrivingBodies, LimitExceeded
from ringfence.web.hooks.link import Link, Unreachable
from ringfence.web.hooks.links import Links

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


log = logging.getLogger(__name__)

PREFIX: Final = "/hooks/"


def hook_name(scope: Mapping[str, Any]) -> str | None:
    """Return the connector that a request is for; None for other parts of the site."""
    path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
    if not path.startswith(PREFIX):
        return None
    return path.removeprefix(PREFIX).removesuffix("/")


class Receiver:
    """The receiver of this web process."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._places = Places()
        self._bodies = ArrivingBodies()
        self._limit = LogLimit()

    async def __call__(self, name: str, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        try:
            check_request(name, scope)
            answer = await self._answer(name, scope["headers"], receive, sender_of(address_in(scope)))
        except RequestAborted:
            return
        except LimitExceeded as error:
            close = not keeps_connection(error, scope["headers"])
            await _send(send, error.status, error.text, error.retry_after, close=close)
        else:
            await _send(send, answer["status"], str(answer["text"]), int(answer["again"]))

    async def _answer(self, name: str, headers: Headers, receive: Any, address: str) -> dict[str, Any]:
        link = await self._open(name)
        async with self._bodies.arrival(address) as body:
            async for part in read_parts(receive, headers, link.most_body):
                body.add(part)
        try:
            with self._places.take(name, address):
                text_headers = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in headers]
                return await link.ask(text_headers, bytes(body.content), ANSWER_SECONDS)
        except Unreachable:
            text = "The task has not confirmed the request. Send it again."
            raise LimitExceeded(503, text, RETRY_AFTER_S, body_read=True) from None
        finally:
            self._bodies.release(body)

    async def _open(self, name: str) -> Link:
        """Return the connection to the running task."""
        try:
            is_hook, link = await self._links.find(name)
            if not is_hook:
                raise LimitExceeded(404, "There is no such webhook.")
            if link is None:
                raise LimitExceeded(503, "The connector is not running. Send the request again.", 5)
            await link.open()
        except (DatabaseError, NoKey) as error:
            self._limit.warning(log, "Cannot read where tasks listen: %s (%s)", type(error).__name__, quote(name))
            raise LimitExceeded(503, "The request cannot be forwarded at the moment. Send it again.", 5) from error
        except Unreachable:
            raise LimitExceeded(503, "The task cannot be reached. Send the request again.", RETRY_AFTER_S) from None
        return link


async def _send(send: Any, status: int, text: str, retry_after: int, *, close: bool = False) -> None:
    content = {"status": text} if status < 300 else {"error_code": status, "message": text}
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if retry_after:
        headers.append((b"retry-after", str(retry_after).encode()))
    if status == 405:
        headers.append((b"allow", b"POST"))
    if close:  # the body may not have been read
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
