"""Normalises paths before routing. `ringfence.middleware` checks permissions."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from ringfence.api.path_converters import decode_segment, segments
from ringfence.connectors.api import ConfigException
from ringfence.connectors.common_settings import is_connector_name
from ringfence.http.errors import invalid_config, json_error

CONNECTORS = "/connectors/"


class PathMiddleware(MiddlewareMixin):
    """Distinguishes an encoded slash from a real one, and removes a trailing slash instead of redirecting."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        raw = getattr(request, "scope", {}).get("raw_path")
        path = segments(raw.decode("ascii", "replace")) if raw else request.path_info.replace("%", "%25")
        if not path.startswith(settings.STATIC_URL):
            path = path.rstrip("/") or "/"
        request.path_info = path
        return _refusal_of(path)


def _refusal_of(path: str) -> HttpResponse | None:
    """Return a 400 in Kafka Connect's words if the path contains an impossible connector name."""
    if not path.startswith(CONNECTORS):
        return None
    try:
        is_connector_name("name", decode_segment(path.removeprefix(CONNECTORS).partition("/")[0]))
    except ConfigException as error:
        return json_error(400, invalid_config([str(error)]).message)
    return None
