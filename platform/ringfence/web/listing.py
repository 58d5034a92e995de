"""The list of connectors: search, filter, order and page in the address; a constant number of queries.

The abnormal come first, whatever the order among equals; where the address names an order, that alone counts.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from ringfence.access.principal import EVERYBODY_HERE, Principal
from ringfence.mirror.models import ClusterInfo, Connector, Task, Worker
from ringfence.web.pictures import Line, line, rates
from ringfence.web.states import GROUPS, Look, look_of

PAGE_SIZE = 50
LIVE_MS = 10_000
"""A rate that was reported longer ago than this is not a rate any more."""
ORDERS = {
    "": ("-severity", "name"),
    "name": ("name",),
    "-name": ("-name",),
    "since": ("since_ms", "name"),
    "-since": ("-since_ms", "name"),
    "tasks": ("task_count", "name"),
    "-tasks": ("-task_count", "name"),
    "rate": ("rate", "name"),
    "-rate": ("-rate", "name"),
}
"""What `sort` may be in the address, and the columns it stands for; the name makes every order a whole one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One connector in the list."""

    connector: Connector
    look: Look
    rate: float
    records: int
    last_commit_ms: int
    picture: Line


@dataclass(frozen=True, slots=True)
class Column:
    """A heading of the table that sorts by its column."""

    word: str
    next: str
    aria: str
    numeric: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """One of the state filters, with how many connectors it holds."""

    key: str
    word: str
    tone: str
    count: int
    chosen: bool


def rows_of(page: Page[Connector], now_ms: int) -> list[Row]:
    """The page's connectors with what their tasks report, in one more query."""
    of: dict[str, list[Task]] = {connector.name: [] for connector in page}
    tasks = Task.objects.filter(connector__in=of, known=True)
    for task in tasks.only("connector", "rate", "reported_ms", "records_total", "last_commit_ms", "recent"):
        of[task.connector].append(task)
    return [_row(connector, of[connector.name], now_ms) for connector in page]


def _row(connector: Connector, tasks: list[Task], now_ms: int) -> Row:
    return Row(
        connector=connector,
        look=look_of(connector),
        rate=rate_of(tasks, now_ms),
        records=sum(task.records_total for task in tasks),
        last_commit_ms=max((task.last_commit_ms for task in tasks), default=0),
        picture=line(rates(tasks, now_ms)),
    )


def rate_of(tasks: list[Task], now_ms: int) -> float:
    """Records per second now; a task that has not reported for a while counts as 0."""
    return sum(task.rate for task in tasks if task.reported_ms > now_ms - LIVE_MS)


def _columns(sort: str) -> dict[str, Column]:
    """Each heading with the order that a click on it asks for: the other way round where it is chosen already."""
    found = {}
    for key, word, first in (
        ("since", "State", "-since"),
        ("name", "Name", "name"),
        ("tasks", "Tasks", "-tasks"),
        ("rate", "Records/s", "-rate"),
    ):
        other = first.removeprefix("-") if first.startswith("-") else f"-{first}"
        chosen = sort in (first, other)
        aria = "" if not chosen else "descending" if sort.startswith("-") else "ascending"
        found[key] = Column(word, other if sort == first else first, aria, key in ("tasks", "rate"))
    return found


def _ordered(shown: QuerySet[Connector], sort: str, now_ms: int) -> QuerySet[Connector]:
    if sort in ("rate", "-rate"):
        live = Task.objects.filter(connector=OuterRef("name"), known=True, reported_ms__gt=now_ms - LIVE_MS)
        total = live.order_by().values("connector").annotate(total=Sum("rate")).values("total")
        shown = shown.annotate(rate=Coalesce(Subquery(total), 0.0))
    return shown.order_by(*ORDERS[sort])


def listing(query: Mapping[str, str], who: Principal = EVERYBODY_HERE) -> dict[str, Any]:
    """Everything that the list shows, of what may be seen. `query`: q (text), state (a filter's key), sort, page."""
    now_ms = int(time.time() * 1000)
    search, state = query.get("q", "").strip()[:200], query.get("state", "")
    sort = query.get("sort", "")
    sort = sort if sort in ORDERS else ""
    known = Connector.objects.filter(who.query(), known=True)
    found = known.filter(Q(name__icontains=search) | Q(class_name__icontains=search)) if search else known
    counts = {row["health"]: row["n"] for row in found.values("health").annotate(n=Count("name")).order_by()}
    filters = [
        Filter(key, word, tone, sum(counts.get(health, 0) for health in healths), key == state)
        for key, (word, tone, healths) in GROUPS.items()
    ]
    shown: QuerySet[Connector] = found.filter(health__in=GROUPS[state][2]) if state in GROUPS else found
    paginator = Paginator(_ordered(shown, sort, now_ms).defer("config", "trace"), PAGE_SIZE)
    page = paginator.get_page(query.get("page"))
    live = Task.objects.filter(who.query(field="connector"), known=True, reported_ms__gt=now_ms - LIVE_MS)
    numbers = live.aggregate(rate=Sum("rate"), open=Count("id", filter=Q(open_since_ms__gt=0)))
    tasks = known.aggregate(running=Sum("tasks_running"), failed=Sum("tasks_failed"), all=Sum("task_count"))
    return {
        "search": search,
        "state": state if state in GROUPS else "",
        "filters": filters,
        "sort": sort,
        "columns": _columns(sort),
        "total": sum(counts.values()),
        "page": page,
        "rows": rows_of(page, now_ms),
        "rate": numbers["rate"] or 0.0,
        "open_transactions": numbers["open"],
        "tasks": {key: value or 0 for key, value in tasks.items()},
        "workers": Worker.objects.count(),
        "leader": ClusterInfo.objects.values_list("leader", flat=True).first() or "",
        "now_ms": now_ms,
    }
