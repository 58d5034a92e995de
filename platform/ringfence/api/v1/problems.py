"""Errors of our own API as problem details (RFC 9457), wherever in the request's way they were made.

Everything that refuses a request makes Kafka Connect's `{"error_code", "message"}`; here, outermost, those of
`/api/v1/` become `application/problem+json`, so that no way out is forgotten.
"""

import json
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

CONTENT_TYPE = "application/problem+json"
PREFIX = "/api/v1/"


def problem(status: int, detail: str, path: str) -> dict[str, object]:
    """The problem's object; `type` is left out, which means about:blank: the status says what kind it is."""
    return {"title": HTTPStatus(status).phrase, "status": status, "detail": detail, "instance": path}


class ProblemMiddleware(MiddlewareMixin):
    """Rewrites errors of `/api/v1/`; all else passes as it is."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.status_code < 400 or not request.path_info.startswith(PREFIX):
            return response
        assert isinstance(response, HttpResponse)
        try:
            said = json.loads(response.content)
        except ValueError:
            said = {}
        detail = str(said.get("message") or said.get("detail") or "") if isinstance(said, dict) else ""
        response.content = json.dumps(problem(response.status_code, detail, request.path_info)).encode()
        response["Content-Type"] = CONTENT_TYPE
        return response
