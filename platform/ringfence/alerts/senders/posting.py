"""One POST of JSON to an address that the guard allows."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from ringfence.alerts import ssrf_guard
from ringfence.alerts.senders.channel import NotSent
from ringfence.alerts.ssrf_guard import AllowedNetworks
from ringfence.connectors.sdk.egress import Policy, Resolve

_SECONDS = 10.0
"""For a whole try, whatever the receiver does: it occupies a thread of a worker."""
_LATER = (408, 409, 425, 429)

# At INFO, it logs complete URLs, and an address may contain its own password.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)


def allowed_addresses() -> AllowedNetworks:
    return AllowedNetworks(bool(settings.ALERTS_PRIVATE), bool(settings.ALERTS_LOOPBACK))


class _CheckedAddress(Policy):
    """Of the address to which the guard has led: nothing is resolved again."""

    def addresses(self, host: str, port: int, resolve: Resolve | None = None) -> list[str]:
        return [host]


def encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(content), ensure_ascii=False).encode(errors="replace")


def post(url: str, body: bytes, headers: Mapping[str, str] | None = None) -> int:
    """Return the answer's status, if it is one of success. Raises `NotSent`. Redirects are not followed."""
    try:
        target = ssrf_guard.target(url, allowed_addresses())
    except ssrf_guard.AddressDenied as refused:
        raise NotSent(str(refused)) from None
    all_headers = {
        "Host": target.host_header,
        "Content-Type": "application/json",
        "User-Agent": "ringfence-alerts",
        **(headers or {}),
    }
    import httpx  # here: it takes a web process that sends nothing a twentieth of its start

    from ringfence.connectors.sdk.guarded_httpx import restrict_client

    try:
        # No proxy from the environment: it would resolve the name itself, to an unchecked address.
        with httpx.Client(timeout=_SECONDS, trust_env=False) as client:
            restrict_client(client, _CheckedAddress(""), _SECONDS, with_bodies=False)
            request = client.build_request("POST", target.url, content=body, headers=all_headers)
            request.extensions["sni_hostname"] = target.host
            status = client.send(request).status_code
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
