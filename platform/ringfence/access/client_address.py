"""The address that a request comes from."""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest


def address_in(scope: Mapping[str, Any]) -> str:
    """Do the same as `address_of` for a request that does not reach Django, by its ASGI scope."""
    if settings.BEHIND_PROXY:
        forwarded = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
        if forwarded:
            return forwarded.rpartition(b",")[2].strip().decode("latin-1")
    return str((scope.get("client") or [""])[0])


def address_of(request: HttpRequest) -> str:
    """Return the client's address. Behind a proxy of ours, it is the last one in the proxy's header."""
    forwarded = request.headers.get("X-Forwarded-For", "")
    if settings.BEHIND_PROXY and forwarded:
        return forwarded.rpartition(",")[2].strip()
    return str(request.META.get("REMOTE_ADDR") or "")


@lru_cache(maxsize=4096)
def group_of(address: str) -> str:
    """Return what counts as one address: of IPv6, the network of 64 bits, all of which one sender may have."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address[:100]
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip)
