"""`/hooks/<connector>`: requests from anywhere, without a session, with limits of their own (`web.hooks.limits`).

The path is the connector's name, so two connectors cannot claim the same path. The web process decides nothing: it
bounds what it reads, and forwards request and answer. Signature, idempotency key and secret are checked by the task.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from django.core.exceptions import RequestAborted
from django.db import Error as DatabaseError

from ringfence.access.client_address import address_in
from ringfence.connectors.sdk.log_limit import LogLimit
from ringfence.encryption import NoKey
from ringfence.web.hooks import limits
from ringfence.web.hooks.arriving_bodies import ArrivingBodies
from ringfence.web.hooks.limit_exceeded import LimitExceeded
from ringfence.web.hooks.limits import Headers, Places, check_request, keeps_connection, read_parts, sender_of
from ringfence.web.hooks.link import Link, Unreachable
from ringfence.web.hooks.links import Links

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
                return await link.ask(text_headers, bytes(body.content), limits.ANSWER_SECONDS)
        except Unreachable:
            text = "The task has not confirmed the request. Send it again."
            raise LimitExceeded(503, text, limits.RETRY_AFTER_S, body_read=True) from None
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
            raise LimitExceeded(
                503, "The task cannot be reached. Send the request again.", limits.RETRY_AFTER_S
            ) from None
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
