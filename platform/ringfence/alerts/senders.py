"""Makes one try to send one message. Errors contain nothing of an address except its host, and no secret."""

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage

from ringfence.alerts import ssrf_guard
from ringfence.alerts.messages import text_of
from ringfence.alerts.ssrf_guard import AllowedNetworks

WEBHOOK, SLACK, MAIL = "webhook", "slack", "mail"
KINDS = (WEBHOOK, SLACK, MAIL)
SIGNATURE, TIMESTAMP, DELIVERY = "X-Ringfence-Signature", "X-Ringfence-Timestamp", "X-Ringfence-Delivery"
_SECONDS = 10.0
_LATER = (408, 409, 425, 429)

# At INFO, it logs complete URLs, and an address may contain its own password.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)


class NotSent(Exception):
    """A try that failed. final: another try would fail as well; status: of the answer, 0 if there was none."""

    def __init__(self, message: str, *, final: bool = False, status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.final = final
        self.status = status


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A destination, with its secrets in clear text."""

    kind: str
    url: str
    secret: str
    recipients: tuple[str, ...] = ()


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return `sha256=` and the HMAC of timestamp, a dot and the body. The timestamp prevents replays of
    old messages.
    """
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def send(to: Endpoint, message: Mapping[str, Any], delivery: int) -> int:
    """Send it once, and return the answer's status, 250 for mail. Raises `NotSent`."""
    match to.kind:
        case "webhook":
            body = json.dumps(dict(message), ensure_ascii=False).encode()
            now = str(int(time.time()))
            signed = {SIGNATURE: signature(to.secret, now, body), TIMESTAMP: now} if to.secret else {}
            return _post(to.url, body, {**signed, DELIVERY: str(delivery)})
        case "slack":
            text = f"{text_of(message)} {message.get('url', '')}".strip()
            return _post(to.url, json.dumps({"text": text}, ensure_ascii=False).encode(), {})
        case "mail":
            return _mail(to.recipients, message)
        case other:
            raise NotSent(f"Unknown kind of destination {other!r}", final=True)


def allowed_addresses() -> AllowedNetworks:
    return AllowedNetworks(bool(settings.ALERTS_PRIVATE), bool(settings.ALERTS_LOOPBACK))


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    try:
        target = ssrf_guard.target(url, allowed_addresses())
    except ssrf_guard.AddressDenied as refused:
        raise NotSent(str(refused)) from None
    all_headers = {
        "Host": target.host_header,
        "Content-Type": "application/json",
        "User-Agent": "ringfence-alerts",
        **headers,
    }
    import httpx  # here: it takes a web process that sends nothing a twentieth of its start

    try:
        # No proxy from the environment: it would resolve the name itself, to an unchecked address.
        with httpx.Client(follow_redirects=False, timeout=_SECONDS, trust_env=False) as client:
            request = client.build_request("POST", target.url, content=body, headers=all_headers)
            request.extensions["sni_hostname"] = target.host
            response = client.send(request, stream=True)  # the answer's body is not read
            status = response.status_code
            response.close()
    except httpx.HTTPError as error:
        raise NotSent(f"{target.host} did not answer ({type(error).__name__})") from None
    if status < 300:
        return status
    if status < 400:
        raise NotSent(
            f"{target.host} answered {status}: redirects are not followed, use the final address", status=status
        )
    final = status < 500 and status not in _LATER
    raise NotSent(f"{target.host} answered {status}", final=final, status=status)


def _mail(recipients: tuple[str, ...], message: Mapping[str, Any]) -> int:
    if not settings.EMAIL_HOST and settings.EMAIL_BACKEND.endswith(".smtp.EmailBackend"):
        raise NotSent("No mail server is set: set RINGFENCE_SMTP_URL for the workers", final=True)
    lines = [
        str(message.get("summary", "")),
        str(message.get("url", "")),
        "",
        json.dumps(dict(message), indent=2, ensure_ascii=False),
    ]
    subject = " ".join(text_of(message).split())[:200]
    mail = EmailMessage(subject, "\n".join(lines), settings.DEFAULT_FROM_EMAIL, list(recipients))
    try:
        count = mail.send()
    except (OSError, ValueError) as error:  # smtplib's errors are OSErrors, and their texts contain no password
        raise NotSent(f"The mail server did not accept it ({type(error).__name__})") from None
    if not count:
        raise NotSent("The mail server did not accept it")
    return 250
