"""`/hooks/<connector>`: requests from anywhere, without a session, with their own limits.

The path is the connector's name, so two connectors cannot claim the same path. The web process decides nothing: it
bounds what it reads, and forwards request and answer. Signature, idempotency key and secret are checked by the task.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from django.core.exceptions import RequestAborted
from django.db import Error as DatabaseError

from ringfence.encryption import NoKey
from ringfence.web import request_body
from ringfence.web.hooks.link import Link, Unreachable
from ringfence.web.hooks.links import Links

log = logging.getLogger(__name__)

PREFIX: Final = "/hooks/"
MOST_AT_ONCE: Final = 600
"""The most concurrent requests of all webhooks in this process: pages and API keep the remaining connections."""
MOST_OF_ONE: Final = 300
MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all bodies in memory."""
MOST_HEADERS: Final = 32 * 1024
BODY_SECONDS: Final = 15.0
_MOST_DROPPED: Final = 64 * 1024
ANSWER_SECONDS: Final = 35.0
"""Longer than a task may take to answer."""
_AGAIN_SECONDS: Final = 1
_LONGEST_NAME: Final = 1000


class Refusal(Exception):
    """An answer of the web process itself."""

    def __init__(self, status: int, text: str, again: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.again = again


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
        self._now: Counter[str] = Counter()
        self._all = self._bytes = 0

    async def __call__(self, name: str, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        try:
            self._check(name, scope)
            self._now[name] += 1
            self._all += 1
            try:
                answer = await self._answer(name, scope["headers"], receive)
            finally:
                self._all -= 1
                self._now[name] -= 1
                if not self._now[name]:
                    del self._now[name]
        except RequestAborted:
            return
        except Refusal as error:
            keep = error.status == 404 or (error.status == 503 and _is_small(scope["headers"]))
            await _send(send, error.status, error.text, error.again, close=not keep)
        else:
            await _send(send, answer["status"], str(answer["text"]), int(answer["again"]))

    def _check(self, name: str, scope: Mapping[str, Any]) -> None:
        if not name or len(name) > _LONGEST_NAME:
            raise Refusal(404, "There is no such webhook.")
        if scope["method"] != "POST":
            raise Refusal(405, "A webhook accepts only POST.")
        if sum(len(key) + len(value) for key, value in scope["headers"]) > MOST_HEADERS:
            raise Refusal(431, f"Headers of more than {MOST_HEADERS:,} bytes are not read.")
        if self._all >= MOST_AT_ONCE or self._now[name] >= MOST_OF_ONE:
            raise Refusal(503, "Too many requests are waiting for answers. Send the request again.", _AGAIN_SECONDS)

    async def _answer(self, name: str, headers: list[tuple[bytes, bytes]], receive: Any) -> dict[str, Any]:
        link = await self._open(name)
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = bytearray()
                async for part in _parts(receive, link.most_body, request_body.content_length(headers)):
                    if self._bytes + len(part) > MOST_BYTES:
                        raise Refusal(503, "Too much data waits for answers. Send the request again.", _AGAIN_SECONDS)
                    size += len(part)
                    self._bytes += len(part)
                    body += part
            text_headers = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in headers]
            return await link.ask(text_headers, bytes(body), ANSWER_SECONDS)
        except TimeoutError:
            raise Refusal(408, f"The body did not arrive within {BODY_SECONDS:.0f} s.") from None
        except Unreachable:
            raise Refusal(503, "The task has not confirmed the request. Send it again.", _AGAIN_SECONDS) from None
        finally:
            self._bytes -= size

    async def _open(self, name: str) -> Link:
        """Return the connection to the running task."""
        try:
            is_hook, link = await self._links.find(name)
            if not is_hook:
                raise Refusal(404, "There is no such webhook.")
            if link is None:
                raise Refusal(503, "The connector is not running. Send the request again.", 5)
            await link.open()
        except (DatabaseError, NoKey) as error:
            log.warning("Cannot read where the task of %s listens: %s", quote(name), type(error).__name__)
            raise Refusal(503, "The request cannot be forwarded at the moment. Send it again.", 5) from error
        except Unreachable:
            raise Refusal(503, "The task cannot be reached. Send the request again.", _AGAIN_SECONDS) from None
        return link


def _is_small(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether the body is small enough to read and drop, so that the sender keeps its connection after a 503."""
    return 0 < request_body.content_length(headers) <= _MOST_DROPPED


async def _parts(receive: Any, most: int, length: int) -> Any:
    """Yield the body as it arrives. Raises `Refusal`, or `RequestAborted` if the sender disconnected."""
    size = 0
    if length > most:
        raise Refusal(413, f"A body of more than {most:,} bytes is not read.")
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise Refusal(413, f"A body of more than {most:,} bytes is not read.")
        yield part
        if not message.get("more_body", False):
            return


async def _send(send: Any, status: int, text: str, again: int, *, close: bool = False) -> None:
    content = {"status": text} if status < 300 else {"error_code": status, "message": text}
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if again:
        headers.append((b"retry-after", str(again).encode()))
    if status == 405:
        headers.append((b"allow", b"POST"))
    if close:  # the body may not have been read
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
