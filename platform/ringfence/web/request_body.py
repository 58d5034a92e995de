"""Reads a request's body, with limits on bytes and seconds, which are much lower without a login.

Nothing is written to disk, and only the first bytes are read before the sender is authenticated.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from django.core.exceptions import RequestAborted

MOST = 4 * 1024 * 1024
"""Bytes. The largest configurations and imports are much smaller."""
MOST_UNKNOWN = 64 * 1024
"""Bytes for senders without a valid token or session: enough for the login page."""
MOST_LOGIN = 16 * 1024
"""Bytes of a login, for all senders: several times the longest name and secret that its form accepts."""
MOST_CREDENTIALS = 8 * 1024
"""Bytes of all Authorization headers together. Tokens and passwords are much shorter."""
LOGIN = "/ui/login"
SECONDS = 30.0
"""For the whole body: 4 MiB at 1.2 Mbit/s."""
_DRAIN_SECONDS, _DRAIN_BYTES = 2.0, 16 * 1024 * 1024

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class BodyRejected(Exception):
    """The body is not read to its end. Contains an HTTP status and the reason."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def check_credentials(headers: list[tuple[bytes, bytes]]) -> None:
    """Raise `BodyRejected` for credentials that are too long, before they are decoded, hashed or looked up."""
    if sum(len(value) for name, value in headers if name == b"authorization") > MOST_CREDENTIALS:
        raise BodyRejected(431, f"An Authorization header of more than {MOST_CREDENTIALS:,} bytes is not read.")


async def read(
    headers: list[tuple[bytes, bytes]], receive: Receive, is_known: Callable[[], Awaitable[bool]], path: str = ""
) -> Any:
    """Return the body as a file. is_known: whether the sender is authenticated; called only for larger bodies.

    path: of the request; a login has its own limit. Raises `BodyRejected`, or `RequestAborted` if the sender leaves.
    """
    most = MOST_LOGIN if path.rstrip("/") == LOGIN else MOST
    try:
        async with asyncio.timeout(SECONDS):
            return await _read(content_length(headers), receive, is_known, most)
    except TimeoutError:
        raise BodyRejected(408, f"The body did not arrive within {SECONDS:.0f} s: nothing was changed.") from None


async def _read(length: int, receive: Receive, is_known: Callable[[], Awaitable[bool]], most: int) -> io.BytesIO:
    limit = min(MOST_UNKNOWN, most)
    if length > limit:
        limit = await _higher(length, is_known, most)
    body = io.BytesIO()
    async for part in parts(receive):
        body.write(part)
        if body.tell() > limit:
            limit = await _higher(body.tell(), is_known, most) if limit < most else _too_large(most)
    body.seek(0)
    return body


async def _higher(size: int, is_known: Callable[[], Awaitable[bool]], most: int) -> int:
    if size > most:
        _too_large(most)
    return MOST if await is_known() else _too_large(MOST_UNKNOWN)


def _too_large(limit: int) -> int:
    if limit == MOST_LOGIN:
        raise BodyRejected(413, f"A login of more than {MOST_LOGIN:,} bytes is not read.")
    if limit == MOST:
        raise BodyRejected(413, f"A body of more than {MOST:,} bytes is not read. Send less at once.")
    raise BodyRejected(413, f"Without a valid token or login a body of more than {MOST_UNKNOWN:,} bytes is not read.")


async def parts(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. Raises `RequestAborted` if the sender disconnects."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


def content_length(headers: list[tuple[bytes, bytes]]) -> int:
    """Return Content-Length; 0 if it is missing, as for a chunked body."""
    value = next((value for name, value in headers if name == b"content-length"), b"")
    return int(value) if value.isdigit() else 0


async def refuse(error: BodyRejected, receive: Receive, send: Send) -> None:
    """Answer, and end the connection. Input is read and dropped for a moment: a sender whose connection is cut in the
    middle of its body would never read the answer.
    """
    body = json.dumps({"error_code": error.status, "message": error.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    dropped = 0
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while dropped < _DRAIN_BYTES:
                message = await receive()
                dropped += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    break
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})
