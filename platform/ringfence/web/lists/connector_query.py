"""The list of connectors: search, filters, order and page from the address, with a constant number of queries.

Abnormal connectors come first, unless the address names an order.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from ringfence.access.principal import EVERYBODY_HERE, Principal
from ringfence.projection.health import Health, known_health
from ringfence.projection.models import ActiveTopic, Connector, Task
from ringfence.web.lists.connector_rows import LIVE_MS, rate_of, rows_of
from ringfence.web.state_badges import GROUPS, HEALTH

__all__ = ["LIVE_MS", "ORDERS", "PAGE_SIZE", "ListQuery", "choose", "listing", "rate_of"]

PAGE_SIZE = 50
ORDERS = {
    "": ("-now_severity", "name"),
    "name": ("name",),
    "-name": ("-name",),
    "since": ("health_since_ms", "name"),
    "-since": ("-health_since_ms", "name"),
    "tasks": ("task_count", "name"),
    "-tasks": ("-task_count", "name"),
    "rate": ("rate", "name"),
    "-rate": ("-rate", "name"),
}
"""The values of `sort`, and the columns that they stand for. The name makes every order total."""

SPECIAL = {
    "failed-tasks": ("With failed tasks", Q(tasks_failed__gt=0)),
    "bad-records": (
        "With dead letters or skipped records",
        Q(dead_letters_total__gt=0) | Q(skipped_total__gt=0),
    ),
    "open": (
        "With an open transaction",
        Q(Exists(Task.objects.filter(connector=OuterRef("name"), known=True, open_since_ms__gt=0))),
    ),
}
"""Additional values of `state`: a title, and the condition."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading that sorts by its column."""

    word: str
    next: str
    aria: str
    numeric: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """One of the state filters, with its number of connectors."""

    key: str
    word: str
    tone: str
    count: int
    is_current: bool


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The result of an address. matches: filtered by search and class; sorted_rows: by state, too, in
    the requested order.
    """

    search: str
    state: str
    plugin: str
    sort: str
    all_connectors: QuerySet[Connector]
    matches: QuerySet[Connector]
    sorted_rows: QuerySet[Connector]
    word: str
    """The title of the state filter, "" if it is one of the chips or there is none."""


def choose(query: Mapping[str, str], who: Principal, now_ms: int) -> ListQuery:
    """Filter the visible connectors. query: q (part of the name, class or a topic that it writes to), state (a filter's
    key or a health), plugin (a class), sort.
    """
    search, state = query.get("q", "").strip()[:200].replace("\x00", ""), query.get("state", "")
    plugin, sort = query.get("plugin", "")[:400].replace("\x00", ""), query.get("sort", "")
    sort = sort if sort in ORDERS else ""
    health = known_health()
    connectors = Connector.objects.filter(who.query(), known=True).annotate(
        now_health=health.column, now_severity=health.severity_column
    )
    matching = connectors
    if search:
        writers = ActiveTopic.objects.filter(topic__icontains=search).values("connector")
        matching = connectors.filter(Q(name__icontains=search) | Q(class_name__icontains=search) | Q(name__in=writers))
    if plugin:
        matching = matching.filter(class_name=plugin)
    rows, word = matching, ""
    if state in GROUPS:
        rows = matching.filter(now_health__in=GROUPS[state][2])
    elif state.upper() in HEALTH:
        rows, word = matching.filter(now_health=state.upper()), HEALTH[Health(state.upper())].word
    elif state in SPECIAL:
        rows, word = matching.filter(SPECIAL[state][1]), SPECIAL[state][0]
    else:
        state = ""
    return ListQuery(search, state, plugin, sort, connectors, matching, _order(rows, sort, now_ms), word)


def _order(rows: QuerySet[Connector], sort: str, now_ms: int) -> QuerySet[Connector]:
    if sort in ("rate", "-rate"):
        live = Task.objects.filter(connector=OuterRef("name"), known=True, reported_ms__gt=now_ms - LIVE_MS)
        total = live.order_by().values("connector").annotate(total=Sum("rate")).values("total")
        rows = rows.annotate(rate=Coalesce(Subquery(total), 0.0))
    return rows.order_by(*ORDERS[sort])


def _columns(sort: str) -> dict[str, Column]:
    """Return each heading with the order that a click requests: the reverse if it is the current one."""
    columns = {}
    for key, word, first in (
        ("since", "State", "-since"),
        ("name", "Name", "name"),
        ("tasks", "Tasks", "-tasks"),
        ("rate", "Records/s", "-rate"),
    ):
        other = first.removeprefix("-") if first.startswith("-") else f"-{first}"
        is_chosen = sort in (first, other)
        aria = "" if not is_chosen else "descending" if sort.startswith("-") else "ascending"
        columns[key] = Column(word, other if sort == first else first, aria, key in ("tasks", "rate"))
    return columns


def listing(query: Mapping[str, str], who: Principal = EVERYBODY_HERE) -> dict[str, Any]:
    """Return the list's context, limited to visible connectors. query: as for `choose`, and page."""
    now_ms = int(time.time() * 1000)
    selection = choose(query, who, now_ms)
    by_health = selection.matches.values(now=known_health().column).order_by().annotate(n=Count("name"))
    counts = {row["now"]: row["n"] for row in by_health}
    filters = [
        Filter(key, word, tone, sum(counts.get(health, 0) for health in healths), key == selection.state)
        for key, (word, tone, healths) in GROUPS.items()
    ]
    paginator = Paginator(selection.sorted_rows.defer("config", "trace"), PAGE_SIZE)
    page: Page[Connector] = paginator.get_page(query.get("page"))
    plugins = selection.all_connectors.order_by("class_name").values_list("class_name", flat=True).distinct()
    return {
        "search": selection.search,
        "state": selection.state,
        "state_word": selection.word,
        "plugin": selection.plugin,
        "plugins": [name for name in plugins if name],
        "filters": filters,
        "sort": selection.sort,
        "columns": _columns(selection.sort),
        "total": sum(counts.values()),
        "page": page,
        "rows": rows_of(page, now_ms),
        "now_ms": now_ms,
    }
