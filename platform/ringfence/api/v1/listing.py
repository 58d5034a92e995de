"""Lists: pages, filters and ordering, the same for every resource, and a 400 for an unknown parameter.

`?limit=50&offset=100&order=-time_ms&state=FAILED`. The answer: `{"count", "next", "previous", "results"}`; `next` and
`previous` are addresses or null. An order always ends with the primary key, so that pages neither overlap nor skip.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlencode

from django.core.validators import RegexValidator
from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Field

from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import BIGGEST, FlagField, IntegerField, MomentField, QueryShape, StringField

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
