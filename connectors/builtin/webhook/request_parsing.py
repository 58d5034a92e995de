"""Turns an HTTP request into a ticket: size, signature, idempotency key, body. Pure, except for the queue.

Senders sign as GitHub, Stripe or Standard Webhooks do, with plain HMAC, or have a bearer token. Every comparison takes
constant time, and no message contains a secret or a signature.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import orjson

from ringfence.connectors.api import ParsedConfig, Password
from ringfence.connectors.builtin.webhook import settings as names
from ringfence.connectors.builtin.webhook.request_queue import (
    Answer,
    RequestQueue,
    Tell,
    Ticket,
    digest_of,
    digest_of_body,
)

Headers = Mapping[str, str]
"""HTTP headers by lower-case name."""
Check = Callable[[Headers, bytes, int], str]
"""Takes headers, body, and the time in ms. Returns why the sender is refused, "" if it is not."""

GITHUB_HEADER: Final = "X-Hub-Signature-256"
STRIPE_HEADER: Final = "Stripe-Signature"
STANDARD_HEADERS: Final = (names.STANDARD_ID, "webhook-timestamp", "webhook-signature")
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - of any such secret
_MOST_SIGNATURES: Final = 8
_LONGEST_TIME: Final = 15

_WRONG: Final = "The signature does not match: check the secret at the sender and in the connector."


def _same(secrets: Sequence[bytes], message: bytes, candidates: Sequence[str]) -> bool:
    """Return whether one of the secrets yields one of the signatures, in hexadecimal or base64. All are compared."""
    equal = False
    for secret in secrets:
        expected = hmac.new(secret, message, hashlib.sha256).digest()
        hexadecimal, base = expected.hex().encode(), base64.b64encode(expected)
        for each in candidates:
            equal |= hmac.compare_digest(hexadecimal, each.strip().lower().encode())
            equal |= hmac.compare_digest(base, each.strip().encode())
    return equal


def headers_read(kind: str, header: str) -> Sequence[str]:
    """Return the headers that the check of this configuration looks at. header: the one of signature=hmac."""
    headers = {
        names.GITHUB: (GITHUB_HEADER,),
        names.STRIPE: (STRIPE_HEADER,),
        names.STANDARD: STANDARD_HEADERS,
        names.BEARER: ("Authorization",),
        names.HMAC: (header,),
    }
    return headers.get(kind, ())


def leaves_key_unsigned(kind: str, key: str) -> bool:
    """Return whether a sender is known by a signature that does not cover the idempotency key, so that anybody who has
    seen a request could send it again under another one. key: the setting.
    """
    if not key.strip().startswith(names.HEADER_KEY) or kind in (names.NONE, names.BEARER):
        return False
    return kind != names.STANDARD or key_header(key) != names.STANDARD_ID


def key_header(key: str) -> str:
    """Return the header that the setting names, in lower case; "" for a key in the body."""
    text = key.strip()
    return text.removeprefix(names.HEADER_KEY).strip().lower() if text.startswith(names.HEADER_KEY) else ""


def standard_secret(secret: str) -> bytes:
    """Return the key in a secret of Standard Webhooks, whsec_ and base64. Raises `ValueError` if it is none."""
    text = secret.strip().removeprefix(_SECRET_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("not whsec_ and base64")
    return key


def _find_time_error(seconds: str, now_ms: int, tolerance_ms: int) -> str:
    if abs(now_ms - int(seconds) * 1000) > tolerance_ms:
        return f"The signed time differs from now by more than {names.TOLERANCE}={tolerance_ms}: check the clocks."
    return ""


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_TIME


def _check_hmac(secrets: Sequence[bytes], header: str, *, prefix: str, bare: bool) -> Check:
    def check(headers: Headers, body: bytes, now_ms: int) -> str:
        signature = headers.get(header.lower(), "").strip()
        if not signature:
            return f"The header {header} is missing."
        if not signature.startswith(prefix) and not bare:
            return f"The header {header} does not begin with {prefix}"
        return "" if _same(secrets, body, [signature.removeprefix(prefix)]) else _WRONG

    return check


def _check_stripe(secrets: Sequence[bytes], tolerance_ms: int) -> Check:
    def check(headers: Headers, body: bytes, now_ms: int) -> str:
        parts = [each.strip().partition("=")[::2] for each in headers.get(STRIPE_HEADER.lower(), "").split(",")]
        times = [value for name, value in parts if name == "t"]
        candidates = [value for name, value in parts if name == "v1"][:_MOST_SIGNATURES]
        if len(times) != 1 or not _is_time(times[0]) or not candidates:
            return "The header Stripe-Signature is missing, or has no single t and a v1."
        if not _same(secrets, times[0].encode() + b"." + body, candidates):
            return _WRONG
        return _find_time_error(times[0], now_ms, tolerance_ms)

    return check


def _check_standard(secrets: Sequence[bytes], tolerance_ms: int) -> Check:
    """Return the check of https://www.standardwebhooks.com: the signature covers id, time and body."""

    def check(headers: Headers, body: bytes, now_ms: int) -> str:
        key, seconds, signatures = (headers.get(name, "").strip() for name in STANDARD_HEADERS)
        parts = [each.partition(",")[::2] for each in signatures.split(" ")]
        candidates = [value for version, value in parts if version == "v1"][:_MOST_SIGNATURES]
        if not key or "." in key or not _is_time(seconds) or not candidates:
            return f"One of the headers {', '.join(STANDARD_HEADERS)} is missing, or has another form."
        if not _same(secrets, f"{key}.{seconds}.".encode() + body, candidates):
            return _WRONG
        return _find_time_error(seconds, now_ms, tolerance_ms)

    return check


def _check_bearer(secrets: Sequence[bytes]) -> Check:
    def check(headers: Headers, body: bytes, now_ms: int) -> str:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        presented, equal = token.strip().encode(), False
        for secret in secrets:
            equal |= hmac.compare_digest(secret, presented)
        return (
            ""
            if equal and scheme.lower() == "bearer"
            else ("The header Authorization does not contain the expected token.")
        )

    return check


def signature_check(kind: str, secrets: Sequence[str], header: str, tolerance_ms: int) -> Check:
    """Return the check that the configuration selects. Raises `ValueError` for a secret of another form."""
    if kind == names.STANDARD:
        return _check_standard([standard_secret(secret) for secret in secrets if secret], tolerance_ms)
    keys = [secret.encode() for secret in secrets if secret]
    if kind == names.NONE:
        return lambda _headers, _body, _now_ms: ""
    if not keys:
        return lambda _headers, _body, _now_ms: _WRONG
    if kind == names.GITHUB:
        return _check_hmac(keys, GITHUB_HEADER, prefix="sha256=", bare=False)
    if kind == names.STRIPE:
        return _check_stripe(keys, tolerance_ms)
    if kind == names.BEARER:
        return _check_bearer(keys)
    return _check_hmac(keys, header, prefix="sha256=", bare=True)


LONGEST_KEY: Final = 255
_DEEPEST: Final = 100
_I64: Final = 1 << 63


class RequestRejected(Exception):
    """The request is refused, with this answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.answer = Answer(status, text)


class Receiver:
    """The rules of one configuration."""

    def __init__(self, config: ParsedConfig) -> None:
        secrets = [config.get(name) for name in (names.SECRET, names.SECRET_BEFORE)]
        signature, signature_header = config.string(names.SIGNATURE), config.string(names.SIGNATURE_HEADER)
        self._check = signature_check(
            signature,
            [secret.value for secret in secrets if isinstance(secret, Password)],
            signature_header,
            config.integer(names.TOLERANCE),
        )
        self._format = config.string(names.BODY_FORMAT)
        self._key = config.string(names.KEY).strip()
        self._header_names = [name.strip() for name in config.strings(names.HEADERS) if name.strip()]
        self.most_body = config.integer(names.MOST_BODY)
        self.replays_checked = config.string(names.REPLAY) == names.BODY and leaves_key_unsigned(signature, self._key)
        """Whether the same body is refused under another key."""
        needed = (*headers_read(signature, signature_header), key_header(self._key), *self._header_names)
        self.needed_headers: Final = sorted({name.lower() for name in needed if name})
        """The names of all headers that `read` looks at, in lower case."""

    @property
    def keyed(self) -> bool:
        """Whether requests have idempotency keys."""
        return bool(self._key)

    def receive(
        self, headers: Sequence[Sequence[str]], body: bytes, requests: RequestQueue, tell: Tell, now_ms: int
    ) -> Answer | Ticket:
        """Return an immediate answer, or the ticket that `tell` waits for."""
        try:
            ticket = self.read(headers, body, now_ms)
        except RequestRejected as refused:
            return refused.answer
        return requests.offer(ticket, tell, now_ms)

    def read(self, headers: Sequence[Sequence[str]], body: bytes, now_ms: int, *, signed: bool = True) -> Ticket:
        """Validate a request. Raises `RequestRejected`. signed: check the signature, before the body is parsed."""
        by_name = {name.lower(): value for name, value in reversed([*headers])}
        if len(body) > self.most_body:
            raise RequestRejected(413, f"The body is larger than {self.most_body:,} bytes.")
        if signed and (why := self._check(by_name, body, now_ms)):
            raise RequestRejected(401, why)
        value = self._value(body)
        key = self._find_key(by_name, value, body)
        header_pairs = tuple((name, by_name[name.lower()]) for name in self._header_names if name.lower() in by_name)
        body_digest = digest_of_body(body) if self.replays_checked else None
        return Ticket(value, header_pairs, len(body), now_ms, key, digest_of(key) if key else None, body_digest)

    def _value(self, body: bytes) -> object:
        if self._format == names.BYTES:
            return body
        if self._format == names.JSON:
            return _parse(body)
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise RequestRejected(400, "The body is not UTF-8.") from None

    def _find_key(self, headers: Mapping[str, str], value: object, body: bytes) -> str:
        if not self._key:
            return ""
        if self._key.startswith(names.HEADER_KEY):
            where = self._key.removeprefix(names.HEADER_KEY).strip()
            key: object = headers.get(where.lower())
        else:
            where = self._key
            content = value if self._format == names.JSON else _parse(body)
            key = follow(content, self._key.removeprefix(names.BODY_KEY))
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)
        if not isinstance(key, str) or not key.strip():
            raise RequestRejected(400, f"The request has no idempotency key: {where} is missing or empty.")
        if len(key) > LONGEST_KEY:
            raise RequestRejected(400, f"The idempotency key has more than {LONGEST_KEY} characters.")
        return key.strip()


def _parse(body: bytes) -> object:
    """Parse JSON that every converter can write: a sender must not be able to fail the task."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise RequestRejected(400, "The body is not JSON.") from None
    if not _is_plain(value):
        raise RequestRejected(
            400, f"The body nests deeper than {_DEEPEST} levels, or has an integer of more than 64 bits."
        )
    return value


def _is_plain(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        if not level:
            return True
        deeper: list[object] = []
        for each in level:
            if isinstance(each, dict):
                deeper.extend(each.values())
            elif isinstance(each, list):
                deeper.extend(each)
            elif isinstance(each, int) and not -_I64 <= each < _I64:
                return False
        level = deeper
    return not level


def follow(value: object, pointer: str) -> object:
    """Return what a JSON pointer (RFC 6901) refers to; None if it refers to nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
            value = value[int(name[:9])]
        else:
            return None
    return value
