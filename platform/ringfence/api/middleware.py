"""What stands before every route: how paths are read, and who may come in at all."""

import base64
import re
import secrets
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.deprecation import MiddlewareMixin

from ringfence.api.converters import segments
from ringfence.api.errors import json_error

OPEN_PATHS = ("/health", "/ui/login")
"""Routes that ask for no login, anywhere; static files are open, too."""

_SIGNED = re.compile(r"/connectors/[^/]+/fence")
"""Kafka Connect's internal request (`PUT`): a signature by the session key takes the place of a login."""

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class PathMiddleware(MiddlewareMixin):
    """Keeps an encoded slash apart from a real one, and takes a trailing slash off instead of redirecting."""

    def process_request(self, request: HttpRequest) -> None:
        raw = getattr(request, "scope", {}).get("raw_path")
        path = segments(raw.decode("ascii", "replace")) if raw else request.path_info.replace("%", "%25")
        if not path.startswith(settings.STATIC_URL):
            path = path.rstrip("/") or "/"
        request.path_info = path


class AccessMiddleware(MiddlewareMixin):
    """On loopback: this machine's own pages and tools only. Anywhere else: a token or a login on every route.

    Sets `request.ringfence_user`, "" where nobody logs in.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        request.ringfence_user = ""  # type: ignore[attr-defined]
        try:
            host = request.get_host()
        except DisallowedHost:
            return json_error(
                400,
                "This server is not known by that host name. Use the address it printed at its start, or name the host "
                "in RINGFENCE_ALLOWED_HOSTS.",
            )
        if request.method not in _SAFE_METHODS and _foreign(request, host):
            return json_error(403, "Requests that change something are not taken from pages of other sites.")
        if settings.LOOPBACK or request.path_info in OPEN_PATHS or request.path_info.startswith(settings.STATIC_URL):
            return None
        if request.method == "PUT" and _SIGNED.fullmatch(request.path_info):
            return None
        user = _user(request)
        if user is not None:
            request.ringfence_user = user  # type: ignore[attr-defined]
            return None
        if request.path_info == "/ui" or request.path_info.startswith("/ui/"):
            return HttpResponseRedirect(settings.LOGIN_URL)
        response = json_error(
            401, "A token is required: Authorization: Bearer TOKEN, or HTTP Basic with the token as password."
        )
        response["WWW-Authenticate"] = 'Basic realm="Ringfence", charset="UTF-8"'
        return response


def _foreign(request: HttpRequest, host: str) -> bool:
    """Whether a browser sent this from another site's page; tools send neither of these headers."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def _user(request: HttpRequest) -> str | None:
    user = request.user
    if user.is_authenticated:
        return user.get_username()
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    given, name = credentials.strip(), "token"
    if scheme.lower() == "basic":
        try:
            name, _, given = base64.b64decode(given, validate=True).decode().partition(":")
        except ValueError:
            return None
    elif scheme.lower() != "bearer":
        return None
    token = settings.ACCESS_TOKEN
    if token and secrets.compare_digest(given.encode(), token.encode()):
        return name or "token"
    return None
