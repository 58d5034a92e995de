"""Connector names in paths. Any name works, even with `/` and `%`, if the client percent-encodes it.

`PathMiddleware` normalises paths before routing (`ringfence.middleware` checks permissions). It leaves exactly two
escapes in each segment, `%2F` and `%25`; the converter decodes them. Use `Connector.path` to make URLs, not `reverse`,
which would escape the escapes.
"""

import unicodedata
from urllib.parse import unquote

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from ringfence.connectors.api import ConfigException
from ringfence.connectors.common_settings import is_connector_name
from ringfence.http.errors import invalid_config, json_error


def segments(raw_path: str) -> str:
    """Decode each segment of an encoded path, except for slashes inside segments."""
    parts = (unquote(part).replace("%", "%25").replace("/", "%2F") for part in raw_path.split("/"))
    return "/".join(parts)


def decode_segment(segment: str) -> str:
    """Decode a name in a path that `segments` has returned."""
    return segment.replace("%2F", "/").replace("%25", "%")


def has_control(text: str) -> bool:
    return any(unicodedata.category(character) == "Cc" for character in text)


class NameConverter:
    """One segment, decoded. A name with control characters matches no route."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        name = decode_segment(value)
        if has_control(name):
            raise ValueError("a connector's name has no control characters")
        return name

    def to_url(self, value: str) -> str:
        return value.replace("%", "%25").replace("/", "%2F")


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
