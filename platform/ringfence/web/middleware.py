"""Headers that limit the browser to this server's own files, and the page for an unreachable database."""

import time

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from ringfence.encryption import NoKey
from ringfence.fencing import stages
from ringfence.http.error_pages import answer, database_away

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; manifest-src 'self'"
)
_NO_DOCUMENTS = ("text/css", "text/javascript", "font/woff2")
"""Static files that a browser never opens as a page: what limits a document is weight without use on them."""


class SecurityHeadersMiddleware(MiddlewareMixin):
    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        headers = response.headers
        headers.setdefault("X-Content-Type-Options", "nosniff")
        headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        if settings.SECURE_HSTS_SECONDS and request.is_secure():
            headers.setdefault("Strict-Transport-Security", f"max-age={settings.SECURE_HSTS_SECONDS}")
        if not request.path_info.startswith("/static/"):
            headers.setdefault("Cache-Control", "no-store")
        elif headers.get("Content-Type", "").partition(";")[0] in _NO_DOCUMENTS:
            return response
        headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        headers.setdefault("X-Frame-Options", "DENY")
        headers.setdefault("Referrer-Policy", "same-origin")
        headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        return response


class ServerTimingMiddleware(MiddlewareMixin):
    """Says in the `Server-Timing` header of an answer to a write how long its stages took, in milliseconds."""

    def process_request(self, request: HttpRequest) -> None:
        if request.method not in ("GET", "HEAD", "OPTIONS"):
            request.ringfence_stages = stages.begin(), time.perf_counter()  # type: ignore[attr-defined]

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        parts, began = getattr(request, "ringfence_stages", ({}, 0.0))
        if parts:
            total = (time.perf_counter() - began) * 1000
            response.headers["Server-Timing"] = ", ".join(
                f"{name};dur={ms:.1f}" for name, ms in {"total": total, **parts}.items()
            )
        return response


class DatabaseAwayMiddleware(MiddlewareMixin):
    """Explains that the database does not answer. An open page keeps its content and tries again."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, NoKey):
            return answer(
                request, 503, "A stored value cannot be decrypted", f"{exception}. Running connectors are not affected."
            )
        return database_away(request, exception) if isinstance(exception, OperationalError | InterfaceError) else None
