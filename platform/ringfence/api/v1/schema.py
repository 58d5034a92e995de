"""`/api/schema` (OpenAPI 3) and `/api/docs` (Swagger UI, served from here), generated from the views' declarations."""

import inspect
import re
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import ANYONE, requires
from ringfence.api.base import ConnectView
from ringfence.http.error_pages import answer

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The pages' policy, plus the inline styles that Swagger UI needs."""


_NUMBER = {"type": "integer", "minimum": 0}


class Problem(serializers.Serializer[Any]):
    """RFC 9457."""

    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField()


class V1Schema(AutoSchema):
    """Reads a view's declarations: `shape`, `takes`, `answers`, `header_names`, `many`, `forms`."""

    view: Any

    def get_operation_id(self) -> str:
        words = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self.view).__name__).lower()
        return f"{self.method.lower()}_{words}"

    def get_tags(self) -> list[str]:
        return [type(self.view).__module__.rpartition(".")[2].replace("_", " ")]

    def get_filter_backends(self) -> list[Any]:
        return []

    def _is_list_view(self, serializer: Any = None) -> bool:
        return isinstance(serializer, serializers.ListSerializer)

    def get_description(self) -> str:  # type: ignore[override] # drf-spectacular calls it so
        """Return the view's own docstring, not a base class's."""
        return inspect.cleandoc(vars(type(self.view)).get("__doc__") or "")

    def get_override_parameters(self) -> list[Any]:
        in_path = [
            OpenApiParameter(name, str if kind == "name" else _NUMBER, OpenApiParameter.PATH)
            for kind, name in re.findall(r"<(\w+):(\w+)>", getattr(self.view, "route", ""))
        ]
        query = self.view.queries.get(self.method)
        headers = self.view.headers_of(self.method)
        return [
            *in_path,
            *([query] if query else []),
            *(OpenApiParameter(name, kind, OpenApiParameter.HEADER) for name, kind in headers.items()),
        ]

    def get_request_serializer(self) -> Any:
        return self.view.takes.get(self.method)

    def get_response_serializers(self) -> Any:
        shape: Any = self.view.answers.get(self.method, self.view.shape)
        if self.view.many and self.method == "GET":
            shape = inline_serializer(
                f"{shape.__name__}Page",
                {
                    "count": serializers.IntegerField(),
                    "next": serializers.CharField(allow_null=True),
                    "previous": serializers.CharField(allow_null=True),
                    "results": shape(many=True),
                },
            )
        elif self.view.several:
            shape = shape(many=True)
        code = self.view.codes.get(self.method, 200)
        responses: dict[Any, Any] = {(code, "application/json"): None if code == 204 else shape}
        responses |= {(code, kind): shape if kind.endswith("yaml") else OpenApiTypes.STR for kind in self.view.forms}
        responses |= {(each, "application/json"): shape for each in self.view.later_codes.get(self.method, ())}
        responses |= {(each, "application/json"): None for each in self.view.more_codes.get(self.method, ())}
        return responses | {(each, "application/problem+json"): Problem for each in ("4XX", "5XX")}


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Return the OpenAPI document, which is the same for every user."""
    generator: Any = SchemaGenerator
    with GENERATOR_STATS.silence():
        schema: dict[str, Any] = generator(urlconf="ringfence.api.v1.urls").get_schema(public=True)
    return schema


class Schema(ConnectView):
    access = {"GET": ANYONE}
    schema = None

    def get(self, request: Request) -> Response:
        return Response(document(), content_type="application/vnd.oai.openapi+json")


@requires(GET=ANYONE)
def docs(request: HttpRequest) -> HttpResponse:
    """Show Swagger UI, which works without the internet."""
    if request.method not in ("GET", "HEAD"):
        response = answer(request, 405, "Method not allowed", "HTTP 405 Method Not Allowed")
        response["Allow"] = "GET"
        return response
    page = render(request, "ringfence/api_docs.html")
    page["Content-Security-Policy"] = _POLICY
    return page
