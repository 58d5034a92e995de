"""One POST of JSON to an address that the guard allows."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from ringfence.alerts import ssrf_guard
from ringfence.alerts.senders.channel import NotSent
from ringfence.alerts.ssrf_guard import AllowedNetworks

_SECONDS = 10.0
_LATER = (408, 409, 425, 429)

# At INFO, it logs complete URLs, and an address may contain its own password.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)


def allowed_addresses() -> AllowedNetworks:
    return AllowedNetworks(bool(settings.ALERTS_PRIVATE), bool(settings.ALERTS_LOOPBACK))


def encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(content), ensure_ascii=False).encode()


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
