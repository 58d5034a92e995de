"""Errors of the native API as problem details (RFC 9457), wherever they come from.

Everything that refuses a request answers Kafka Connect's `{"error_code", "message"}`. This outermost middleware
converts those of `/api/v1/` to `application/problem+json`, so that no case is missed.
"""

import json
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

CONTENT_TYPE = "application/problem+json"
PREFIX = "/api/v1/"


def problem(status: int, detail: str, path: str) -> dict[str, object]:
    """Return the problem's object. `type` is left out, which means about:blank: the status is the type."""
    return {"title": HTTPStatus(status).phrase, "status": status, "detail": detail, "instance": path}


class ProblemMiddleware(MiddlewareMixin):
    """Converts errors of `/api/v1/`; everything else passes unchanged."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.status_code < 400 or not request.path_info.startswith(PREFIX):
            return response
        assert isinstance(response, HttpResponse)
        try:
            content = json.loads(response.content)
        except ValueError:
            content = {}
        detail = str(content.get("message") or content.get("detail") or "") if isinstance(content, dict) else ""
        response.content = json.dumps(problem(response.status_code, detail, request.path_info)).encode()
        response["Content-Type"] = CONTENT_TYPE
        return response
