"""What all views of the native API share.

Everything that refuses a request answers Kafka Connect's `{"error_code", "message"}`. The outermost middleware converts
those of `/api/v1/` to problem details (RFC 9457), so that no case is missed.
"""

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from ringfence.access.authorise import principal_of
from ringfence.api.base import ConnectView
from ringfence.api.v1.request_fields import QueryShape, RequestShape, check
from ringfence.api.v1.schema import V1Schema
from ringfence.audit.trail import note
from ringfence.connectors.plural_forms import write_noun
from ringfence.history import idempotency_keys
from ringfence.http.errors import bad_request, json_error

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


Shape = type[Serializer[Any]]
JsonSchema = dict[str, Any]
TEXT: JsonSchema = {"type": "string"}


class V1View(ConnectView):
    """A strict view: an unknown query parameter or body field is refused, not ignored.

    `takes` are the serializers of bodies, `queries` those of queries: they validate the input, and document it.

    For the schema: `shape` is the answer, `answers` that of methods with a different one, with `codes`; `header_names`
    are the supported headers, each with its JSON schema; `many`: a paged list, `several`: a list without pages;
    `forms`: additional content types of a GET; `more_codes`: answers without a body; `later_codes`: answers about work
    in progress, in the same shape.
    """

    schema = V1Schema()
    shape: ClassVar[Shape]
    answers: ClassVar[Mapping[str, Shape]] = {}
    takes: ClassVar[Mapping[str, type[RequestShape]]] = {}
    codes: ClassVar[Mapping[str, int]] = {}
    more_codes: ClassVar[Mapping[str, Iterable[int]]] = {}
    later_codes: ClassVar[Mapping[str, Iterable[int]]] = {}
    queries: ClassVar[Mapping[str, type[QueryShape]]] = {}
    header_names: ClassVar[Mapping[str, Iterable[str]]] = {}
    forms: ClassVar[Iterable[str]] = ()
    many: ClassVar[bool] = False
    several: ClassVar[bool] = False
    route = ""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Carry out a POST with an Idempotency-Key only once; see `history.idempotency_keys`."""
        if request.method != "POST" or idempotency_keys.HEADER not in request.headers:
            return super().dispatch(request, *args, **kwargs)
        repeat = idempotency_keys.IdempotentRequest(request, principal_of(request))
        match repeat.begin():
            case HttpResponse() as answer:
                return answer
            case idempotency_keys.KeyRefusal(status, message):
                return json_error(status, message)
        response = super().dispatch(request, *args, **kwargs)
        assert isinstance(response, Response)
        response.render()
        repeat.end(response.status_code, response.content, response.get("Location", ""))
        return response

    @classmethod
    def headers_of(cls, method: str) -> dict[str, JsonSchema]:
        """Return the headers that a method supports."""
        own: dict[str, JsonSchema] = {name: {"type": "string"} for name in cls.header_names.get(method, ())}
        return {**own, idempotency_keys.HEADER: idempotency_keys.SCHEMA} if method == "POST" else own

    def parse_parameters(self, *names: str) -> dict[str, str]:
        """Return the query's parameters. Raises a 400 for duplicates."""
        query = self.request.query_params
        if unknown := sorted(set(query) - set(names)):
            hint = f"use some of {', '.join(names)}" if names else "none is known here"
            raise bad_request(f"Unknown {write_noun(len(unknown), 'query parameter')} {', '.join(unknown)}: {hint}.")
        if twice := sorted(name for name in query if len(query.getlist(name)) > 1):
            raise bad_request(f"Given more than once: {', '.join(twice)}.")
        return {name: str(query[name]) for name in query}

    def parse_query(self) -> dict[str, Any]:
        """Return the query's parameters, validated and completed by the method's serializer in `queries`."""
        shape = self.queries[self.request.method or ""]
        return check(shape, self.parse_parameters(*shape().fields))

    def tell_reason(self, reason: str) -> None:
        """Set the reason in this write's audit entry."""
        note(self.http_request, reason)

    def parse_body(self, *, optional: bool = False) -> dict[str, Any]:
        """Return the body's fields, validated and completed by the method's serializer in `takes`. Raises a 400 for
        anything else. optional: a missing body is one without fields.
        """
        body = {} if optional and not self.raw_body.strip() else self.json_body()
        return check(self.takes[self.request.method or ""], body)
