"""Authentication of senders: signatures of GitHub, Stripe, Standard Webhooks, plain HMAC and bearer tokens. Pure.

Every comparison takes constant time, and no message contains a secret or a signature.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ringfence.connectors.builtin.webhook import settings as names

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
