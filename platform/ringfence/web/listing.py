"""The list of connectors: filters in the address, the abnormal first, a constant number of queries."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q, QuerySet, Sum

from ringfence.access.principal import EVERYBODY_HERE, Principal
from ringfence.mirror.models import ClusterInfo, Connector, Task, Worker
from ringfence.web.pictures import Line, line, rates
from ringfence.web.states import GROUPS, Look, look_of

PAGE_SIZE = 50
LIVE_MS = 10_000
"""A rate that was reported longer ago than this is not a rate any more."""


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


def listing(query: Mapping[str, str], who: Principal = EVERYBODY_HERE) -> dict[str, Any]:
    """Everything that the list shows, of what may be seen. `query`: q (text), state (a filter's key), page."""
    now_ms = int(time.time() * 1000)
    search, state = query.get("q", "").strip()[:200], query.get("state", "")
    known = Connector.objects.filter(who.query(), known=True)
    found = known.filter(Q(name__icontains=search) | Q(class_name__icontains=search)) if search else known
    counts = {row["health"]: row["n"] for row in found.values("health").annotate(n=Count("name")).order_by()}
    filters = [
        Filter(key, word, tone, sum(counts.get(health, 0) for health in healths), key == state)
        for key, (word, tone, healths) in GROUPS.items()
    ]
    shown: QuerySet[Connector] = found.filter(health__in=GROUPS[state][2]) if state in GROUPS else found
    paginator = Paginator(shown.order_by("-severity", "name").defer("config"), PAGE_SIZE)
    page = paginator.get_page(query.get("page"))
    live = Task.objects.filter(who.query(field="connector"), known=True, reported_ms__gt=now_ms - LIVE_MS)
    numbers = live.aggregate(rate=Sum("rate"), open=Count("id", filter=Q(open_since_ms__gt=0)))
    tasks = known.aggregate(running=Sum("tasks_running"), failed=Sum("tasks_failed"), all=Sum("task_count"))
    return {
        "search": search,
        "state": state if state in GROUPS else "",
        "filters": filters,
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
