"""The protocol between a web process and the task that takes its requests: frames of a JSON header and a body.

Both ends prove that they know the endpoint's secret before they send anything else: a web process must not trust
another process that took over a dead task's port, and only web processes may send requests. The secret itself is never
sent.
"""

import asyncio
import hashlib
import hmac
import secrets
import struct
from collections.abc import Mapping
from typing import Any, Final

import orjson

HANDSHAKE_SECONDS: Final = 5.0
MOST_GREETING: Final = 64 * 1024
"""In bytes; a task's greeting names the headers that it needs."""
MOST_HEADER: Final = 128 * 1024
"""In bytes; several times the limit of a web process for the headers of a request, since JSON may be longer."""
MOST_HEADERS: Final = 100
"""The most headers of a request."""
MOST_READ_HEADER: Final = 1024 * 1024
MOST_READ_BODY: Final = 16 * 1024 * 1024
"""Larger frames end the connection. What is smaller and still too large is answered, since it is one sender's fault,
and many senders share the connection.
"""
_SIZES: Final = struct.Struct(">II")
_WEB, _TASK = b"web", b"task"


class NotTrusted(Exception):
    """The other end does not know the secret, or does not follow the protocol."""


Frame = tuple[dict[str, Any], bytes]


def pack(header: Mapping[str, object], body: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    text = orjson.dumps(header)
    return b"".join((_SIZES.pack(len(text), len(body)), text, body))


def is_too_long(header: Mapping[str, Any]) -> bool:
    """Return whether the headers of a request are larger than a web process may send. Counts before it measures."""
    pairs = header.get("headers", ())
    return len(pairs) > MOST_HEADERS or sum(len(name) + len(value) for name, value in pairs) > MOST_HEADER


async def read_frame(reader: asyncio.StreamReader, most_header: int, most_body: int) -> Frame:
    """Read the next frame. Raises `NotTrusted` if it is too long, `IncompleteReadError` at the end."""
    length, body_length = _SIZES.unpack(await reader.readexactly(_SIZES.size))
    if length > most_header or body_length > most_body:
        raise NotTrusted("a frame is too long")
    header = orjson.loads(await reader.readexactly(length))
    if not isinstance(header, dict):
        raise NotTrusted("a frame has no object as its header")
    return header, (await reader.readexactly(body_length) if body_length else b"")


def _prove(secret: str, side: bytes, *nonces: str) -> str:
    return hmac.new(
        secret.encode(), b"|".join((side, *(nonce.encode() for nonce in nonces))), hashlib.sha256
    ).hexdigest()


async def greet_task(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: str, secret: str
) -> dict[str, Any]:
    """Authenticate as the web process. Returns the task's greeting. Raises `NotTrusted`, or errors of the
    connection.
    """
    nonce = secrets.token_hex(16)
    writer.write(pack({"endpoint": endpoint, "nonce": nonce}))
    answer, _ = await _read_greeting(reader)
    theirs = str(answer.get("nonce", ""))
    if not hmac.compare_digest(_prove(secret, _TASK, nonce, theirs), str(answer.get("proof", ""))):
        raise NotTrusted("the task does not know the endpoint's secret")
    writer.write(pack({"proof": _prove(secret, _WEB, theirs, nonce)}))
    return answer


async def greet_web(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    endpoint: str,
    secret: str,
    content: Mapping[str, object],
) -> None:
    """Authenticate as the task. Raises `NotTrusted`, or errors of the connection.

    content: the greeting's content.
    """
    greeting, _ = await _read_greeting(reader)
    if greeting.get("endpoint") != endpoint:
        raise NotTrusted("another endpoint was requested")
    theirs, nonce = str(greeting.get("nonce", "")), secrets.token_hex(16)
    writer.write(pack({**content, "nonce": nonce, "proof": _prove(secret, _TASK, theirs, nonce)}))
    answer, _ = await _read_greeting(reader)
    if not hmac.compare_digest(_prove(secret, _WEB, nonce, theirs), str(answer.get("proof", ""))):
        raise NotTrusted("the web process does not know the endpoint's secret")


async def _read_greeting(reader: asyncio.StreamReader) -> Frame:
    async with asyncio.timeout(HANDSHAKE_SECONDS):
        try:
            return await read_frame(reader, MOST_GREETING, 0)
        except ValueError as error:
            raise NotTrusted("a greeting is not JSON") from error
