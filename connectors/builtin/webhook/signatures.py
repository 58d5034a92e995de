"""Authentication of senders: signatures of GitHub and Stripe, plain HMAC and bearer tokens. Pure.

Every comparison takes constant time, and no message contains a secret or a signature.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ringfence.connectors.builtin.webhook import settings as names

Headers = Mapping[str, str]
"""HTTP headers by lower-case name."""
Check = Callable[[Headers, bytes, int], str]
"""Takes headers, body, and the time in ms. Returns why the sender is refused, "" if it is not."""

_WRONG: Final = "The signature does not match: check the secret at the sender and in the connector."


def _same(secrets: Sequence[bytes], message: bytes, candidates: Sequence[str]) -> bool:
    """Return whether one of the secrets yields one of the signatures. All are compared."""
    equal = False
    for secret in secrets:
        expected = hmac.new(secret, message, hashlib.sha256).hexdigest().encode()
        for each in candidates:
            equal |= hmac.compare_digest(expected, each.strip().lower().encode())
    return equal


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
        parts = [each.strip().partition("=")[::2] for each in headers.get("stripe-signature", "").split(",")]
        times = [value for name, value in parts if name == "t"]
        candidates = [value for name, value in parts if name == "v1"][:8]
        if len(times) != 1 or not (times[0].isascii() and times[0].isdigit()) or len(times[0]) > 15 or not candidates:
            return "The header Stripe-Signature is missing, or has no single t and a v1."
        if not _same(secrets, times[0].encode() + b"." + body, candidates):
            return _WRONG
        if abs(now_ms - int(times[0]) * 1000) > tolerance_ms:
            return f"The signed time differs from now by more than {names.TOLERANCE}={tolerance_ms}: check the clocks."
        return ""

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
    """Return the check that the configuration selects."""
    keys = [secret.encode() for secret in secrets if secret]
    if kind == names.NONE:
        return lambda _headers, _body, _now_ms: ""
    if not keys:
        return lambda _headers, _body, _now_ms: _WRONG
    if kind == names.GITHUB:
        return _check_hmac(keys, "X-Hub-Signature-256", prefix="sha256=", bare=False)
    if kind == names.STRIPE:
        return _check_stripe(keys, tolerance_ms)
    if kind == names.BEARER:
        return _check_bearer(keys)
    return _check_hmac(keys, header, prefix="sha256=", bare=True)
