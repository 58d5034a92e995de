"""The address that a request comes from."""

from django.conf import settings
from django.http import HttpRequest


def address_of(request: HttpRequest) -> str:
    """Return the client's address. Behind a proxy of ours, it is the last one in the proxy's header."""
    forwarded = request.headers.get("X-Forwarded-For", "")
    if settings.BEHIND_PROXY and forwarded:
        return forwarded.rpartition(",")[2].strip()
    return str(request.META.get("REMOTE_ADDR") or "")
