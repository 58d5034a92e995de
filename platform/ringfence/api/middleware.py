"""How paths are read, before any route is looked for. Who may come in: `ringfence.middleware.access`."""

from django.conf import settings
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

from ringfence.api.converters import segments

CONSOLE = "/console/"
"""Below it paths end with a slash, as Django's admin writes them."""


class PathMiddleware(MiddlewareMixin):
    """Keeps an encoded slash apart from a real one, and takes a trailing slash off instead of redirecting."""

    def process_request(self, request: HttpRequest) -> None:
        raw = getattr(request, "scope", {}).get("raw_path")
        path = segments(raw.decode("ascii", "replace")) if raw else request.path_info.replace("%", "%25")
        if not path.startswith((settings.STATIC_URL, CONSOLE)):
            path = path.rstrip("/") or "/"
        request.path_info = path
