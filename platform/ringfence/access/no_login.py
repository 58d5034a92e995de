"""Requests that need no login: those from this machine, under `ringfence up` only.

`up` passes this to its web process on the command line (`ringfence web --no-login …`), which sets `settings.NO_LOGIN`.
No environment variable can, so that neither a stray one nor another server (`uvicorn ringfence.asgi:application`) lets
anybody in.
"""

import ipaddress
import os

from django.conf import settings
from django.http import HttpRequest

from ringfence.access.loopback_user import user_of
from ringfence.environment import NoLogin, host_of

_FORWARDED = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP", "HTTP_X_ORIGINAL_HOST", "HTTP_TRUE_CLIENT_IP")
_FORWARDED_PREFIX = "HTTP_X_FORWARDED"


def needs_no_login(request: HttpRequest) -> bool:
    """Return whether this request needs no login.

    It must come from loopback, to a loopback name, without a sign of a proxy; with `SAME_USER`, the other end of its
    connection must also be a socket of our own user.
    """
    if not settings.NO_LOGIN:
        return False
    peer = str(request.META.get("REMOTE_ADDR") or "")
    if not _is_loopback(peer) or not _is_loopback_name(request.META.get("HTTP_HOST", "")) or _is_forwarded(request):
        return False
    return settings.NO_LOGIN == NoLogin.MACHINE or _of_our_user(request)


def _is_forwarded(request: HttpRequest) -> bool:
    return any(name in _FORWARDED or name.startswith(_FORWARDED_PREFIX) for name in request.META)


def _of_our_user(request: HttpRequest) -> bool:
    scope = getattr(request, "scope", {})
    peer, server = scope.get("client"), scope.get("server")
    if not peer or not server or server[1] is None:
        return False
    uid = user_of((str(peer[0]), int(peer[1])), (str(server[0]), int(server[1])))
    return uid is not None and uid == os.getuid()


def _is_loopback_name(host: str) -> bool:
    """Check a Host header, with or without a port."""
    name = host if host.endswith("]") else host_of(host)
    return name.lower() == "localhost" or _is_loopback(name.strip("[]"))


def _is_loopback(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(ip, "ipv4_mapped", None)
    return bool((mapped or ip).is_loopback)
