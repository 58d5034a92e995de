"""Lists: pages, filters, ordering, the same for every resource, and a 400 for a parameter that means nothing.

`?limit=50&offset=100&order=-time_ms&state=FAILED`. The answer: `{"count", "next", "previous", "results"}`; `next` and
`previous` are addresses or null. An order always ends with the primary key, so that pages neither overlap nor skip.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.api.v1.base import FLAG, TEXT, JsonSchema, V1View
from ringfence.http.errors import bad_request

Condition = Callable[[str], Q]
"""`schema`, where it has one: what the text may be."""

LIMIT, LARGEST = 50, 1000
_BIGGEST = 2**63 - 1
_OF_LISTS = ("limit", "offset", "order")
_LIMIT: JsonSchema = {"type": "integer", "minimum": 1, "maximum": LARGEST, "default": LIMIT}
_OFFSET: JsonSchema = {"type": "integer", "minimum": 0, "maximum": _BIGGEST, "default": 0}


def _of(schema: JsonSchema, condition: Condition) -> Condition:
    condition.schema = schema  # type: ignore[attr-defined]
    return condition


def whole(text: str, what: str, lowest: int = 0, highest: int = _BIGGEST) -> int:
    """An integer of a query. A 400 that names it where it is none, or out of its bounds."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and lowest <= int(text) <= highest):
        raise bad_request(f"{what} must be an integer from {lowest} to {highest}.")
    return int(text)


def moment(text: str, what: str) -> int:
    """A time as milliseconds since the epoch: given so, or in ISO 8601 (UTC where it names no zone)."""
    if text.isascii() and text.isdigit():
        return whole(text, what)
    try:
        parsed = dt.datetime.fromisoformat(text)
        zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)
        return int(zoned.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise bad_request(f"{what} must be milliseconds since the epoch or a time like 2025-03-01T12:00:00Z.") from None


def equal(field: str) -> Condition:
    return lambda text: Q(**{field: text})


def contains(field: str) -> Condition:
    return lambda text: Q(**{f"{field}__icontains": text})


def number(field: str) -> Condition:
    schema = {"type": "integer", "minimum": -1, "maximum": _BIGGEST}
    return _of(schema, lambda text: Q(**{field: whole(text, field, -1)}))


def flag(field: str) -> Condition:
    def condition(text: str) -> Q:
        if text.lower() not in ("true", "false"):
            raise bad_request(f"{field} must be true or false.")
        return Q(**{field: text.lower() == "true"})

    return _of(FLAG, condition)


def since(field: str) -> Condition:
    return lambda text: Q(**{f"{field}__gte": moment(text, "since")})


def until(field: str) -> Condition:
    """Exclusive."""
    return lambda text: Q(**{f"{field}__lt": moment(text, "until")})


class ListView(V1View):
    """A list of rows. `filters`: query parameter to condition; `orders`: parameter value to field; the first is the
    default, with its sign in `newest_first`."""

    many = True
    filters: ClassVar[Mapping[str, Condition]] = {}
    orders: ClassVar[Mapping[str, str]] = {}
    newest_first: ClassVar[bool] = False

    @classmethod
    def parameters_of(cls, method: str) -> dict[str, JsonSchema]:
        if method != "GET":
            return super().parameters_of(method)
        field = f"-?({'|'.join(map(re.escape, cls.orders))})"
        order = {"type": "string", "pattern": f"^{field}(,{field})*$"}
        of_filters = {name: getattr(condition, "schema", TEXT) for name, condition in cls.filters.items()}
        return {"limit": _LIMIT, "offset": _OFFSET, "order": order, **of_filters}

    def rows(self, **path: Any) -> QuerySet[Any]:
        """All that the caller may see."""
        raise NotImplementedError

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        """The rows of one page, as `shape` describes them."""
        raise NotImplementedError

    def get(self, request: Request, **path: Any) -> Response:
        asked = self.parse_parameters(*_OF_LISTS, *self.filters)
        found = self.rows(**path)
        for name, condition in self.filters.items():
            if name in asked:
                found = found.filter(condition(asked[name].replace("\x00", "")))
        limit = whole(asked.get("limit", str(LIMIT)), "limit", 1, LARGEST)
        offset = whole(asked.get("offset", "0"), "offset")
        count = found.count()
        page = found.order_by(*self._order(asked.get("order")), "pk")[offset : min(offset + limit, _BIGGEST)]
        results = self.shape(self.serialize(list(page) if offset < count else []), many=True).data
        following = self._at(asked, limit, offset + limit) if offset + limit < count else None
        previous = self._at(asked, limit, max(0, offset - limit)) if offset else None
        return Response({"count": count, "next": following, "previous": previous, "results": results})

    def _order(self, text: str | None) -> list[str]:
        if text is None:
            first = next(iter(self.orders.values()))
            return [f"-{first}" if self.newest_first else first]
        fields = []
        for each in text.split(","):
            name = each.removeprefix("-")
            if name not in self.orders:
                raise bad_request(f"order cannot be by {name!r}: use some of {', '.join(self.orders)}, - for falling.")
            fields.append(("-" if each.startswith("-") else "") + self.orders[name])
        return fields

    def _at(self, asked: Mapping[str, str], limit: int, offset: int) -> str:
        query = {**asked, "limit": str(limit), "offset": str(offset)}
        return self.request.build_absolute_uri(f"{self.request.path}?{urlencode(query)}")
