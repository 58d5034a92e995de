"""What all views of the native API share, and lists: pages, filters and ordering, the same for every resource, and a
400 for an unknown parameter.

`?limit=50&offset=100&order=-time_ms&state=FAILED`. The answer: `{"count", "next", "previous", "results"}`; `next` and
`previous` are addresses or null. An order always ends with the primary key, so that pages neither overlap nor skip.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlencode

from django.core.validators import RegexValidator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Field, Serializer

from ringfence.access.authorise import principal_of
from ringfence.api.base import ConnectView
from ringfence.api.v1.request_fields import (
    BIGGEST,
    FlagField,
    IntegerField,
    MomentField,
    QueryShape,
    RequestShape,
    StringField,
    check,
)
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


LIMIT, LARGEST = 50, 1000


class Filter(NamedTuple):
    """A query parameter: the field that validates and documents it, and the condition that its value puts on rows."""

    field: Callable[[], "Field[Any, Any, Any, Any]"]
    condition: Callable[[Any], Q]


def _optional_string() -> StringField:
    return StringField(required=False, allow_blank=True, trim_whitespace=False)


def matching(condition: Callable[[str], Q]) -> Filter:
    """Filter by a string."""
    return Filter(_optional_string, condition)


def equal(name: str) -> Filter:
    return matching(lambda text: Q(**{name: text}))


def contains(name: str) -> Filter:
    return matching(lambda text: Q(**{f"{name}__icontains": text}))


def number(name: str) -> Filter:
    """Filter by an integer from -1 on."""
    return Filter(
        lambda: IntegerField(required=False, min_value=-1, max_value=BIGGEST), lambda value: Q(**{name: value})
    )


def either(condition: Callable[[bool], Q]) -> Filter:
    """Filter by true or false."""
    return Filter(lambda: FlagField(required=False), condition)


def flag(name: str) -> Filter:
    return either(lambda value: Q(**{name: value}))


def since(name: str) -> Filter:
    return Filter(lambda: MomentField(required=False), lambda value: Q(**{f"{name}__gte": value}))


def until(name: str) -> Filter:
    """Filter up to a time, exclusive."""
    return Filter(lambda: MomentField(required=False), lambda value: Q(**{f"{name}__lt": value}))


class OrderField(StringField):
    """Fields to order a list by, the first one first."""

    def __init__(self, names: Iterable[str], **options: Any) -> None:
        self.names = tuple(names)
        one = f"-?({'|'.join(map(re.escape, self.names))})"
        # For the document. Python's $ would also match before a line break at the end.
        super().__init__(validators=[RegexValidator(f"^{one}(,{one})*$")], **options)

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if not {each.removeprefix("-") for each in text.split(",")} <= set(self.names):
            self.fail("invalid")
        return text

    def describe(self) -> str:
        return f"some of {', '.join(self.names)}, separated by commas, with - in front for descending order"


class ListQueryShape(QueryShape):
    """Page and order of a list, and its filters."""

    view: ClassVar[type["ListView"]]

    limit = IntegerField(min_value=1, max_value=LARGEST, default=LIMIT)
    offset = IntegerField(min_value=0, max_value=BIGGEST, default=0)

    def get_fields(self) -> dict[str, Any]:
        order = OrderField(self.view.orders, required=False, trim_whitespace=False)
        filters = {name: one.field() for name, one in self.view.filters.items()}
        return {**super().get_fields(), "order": order, **filters}


class ListView(V1View):
    """A list of rows. `filters`: by query parameter; `orders`: parameter value to field; the first is the default,
    descending if `newest_first`. The serializer that validates and documents the query is made from them.
    """

    many = True
    filters: ClassVar[Mapping[str, Filter]] = {}
    orders: ClassVar[Mapping[str, str]] = {}
    newest_first: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.queries = {**cls.queries, "GET": type(f"{cls.__name__}QueryShape", (ListQueryShape,), {"view": cls})}

    def rows(self, **path: Any) -> QuerySet[Any]:
        """Return all rows that the caller may see."""
        raise NotImplementedError

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the rows of one page, in the format of `shape`."""
        raise NotImplementedError

    def get(self, request: Request, **path: Any) -> Response:
        query = self.parse_query()
        rows = self.rows(**path)
        for name, one in self.filters.items():
            if name in query:
                rows = rows.filter(one.condition(query[name]))
        limit, offset, count = query["limit"], query["offset"], rows.count()
        page = rows.order_by(*self._order(query.get("order")), "pk")[offset : min(offset + limit, BIGGEST)]
        results = self.shape(self.serialize(list(page) if offset < count else []), many=True).data
        following = self._at(limit, offset + limit) if offset + limit < count else None
        previous = self._at(limit, max(0, offset - limit)) if offset else None
        return Response({"count": count, "next": following, "previous": previous, "results": results})

    def _order(self, text: str | None) -> list[str]:
        if text is None:
            first = next(iter(self.orders.values()))
            return [f"-{first}" if self.newest_first else first]
        return ["-" * each.startswith("-") + self.orders[each.removeprefix("-")] for each in text.split(",")]

    def _at(self, limit: int, offset: int) -> str:
        query = {**self.request.query_params.dict(), "limit": str(limit), "offset": str(offset)}
        return self.request.build_absolute_uri(f"{self.request.path}?{urlencode(query)}")
