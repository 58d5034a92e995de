"""The Timeline tab: a connector's events and the actions on it, in one list, newest first."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.core.paginator import Page, Paginator
from django.db.models import Count, QuerySet, Value
from django.http import HttpRequest
from django.urls import path

from ringfence.access.authorise import principal_of
from ringfence.access.principal import Principal, display_name
from ringfence.audit.models import AuditEntry, Outcome
from ringfence.audit.trail import entries
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector, Event
from ringfence.web.connector.event_folding import fold, headline
from ringfence.web.connector.header import event_view
from ringfence.web.connector.tab_page import tab
from ringfence.web.time_axis import Span, is_asked, read_ms, read_span

PAGE_SIZE = 50
_FOLDED_PAGE_SIZE = 200
_SAME_MS = 5_000
AUDIT = "audit"
KINDS = {
    "round": ("Fencing rounds", "fence"),
    "task": ("Tasks", "cpu"),
    "command": ("Commands", "zap"),
    AUDIT: ("Audit trail", "user"),
    "warning": ("Warnings", "triangle-alert"),
}
_OUTCOMES = {
    Outcome.DONE: "done",
    Outcome.REFUSED: "refused",
    Outcome.FAILED: "failed",
    Outcome.UNKNOWN: "its outcome is unknown",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the list. id: its anchor; steps: what is folded into it, with times."""

    id: str
    kind: str
    icon: str
    bad: bool
    text: str
    time_ms: int
    settings: str = ""
    steps: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A filter, with its number of lines."""

    key: str
    word: str
    icon: str
    count: int
    is_current: bool


@tab("timeline")
def timeline(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Return events and audit entries in one list: `?kind=&page=`, with `?from=&to=` or `?hours=` of that range, with
    `?until=` without later ones. Audit entries require the permission to read configurations.
    """
    query = request.GET.dict()
    return list_lines(row, principal_of(request), query, read_span(query, 1) if is_asked(query) else None)


def list_lines(connector: Connector, who: Principal, query: Mapping[str, str], span: Span | None) -> dict[str, Any]:
    """Return the context of the list. query: the address's `kind`, `page` and `until`; span: None for all times."""
    kind, page, until_ms = query.get("kind", ""), query.get("page", ""), read_ms(query, "until")
    events = Event.objects.filter(connector=connector.name)
    audit = entries(who).filter(connector=connector.name)
    if span is not None:
        within = {"time_ms__gte": span.from_ms, "time_ms__lt": span.to_ms}
        events, audit = events.filter(**within), audit.filter(**within)
    held_back = 0
    if until_ms:  # rows that came in above those that are being read would move them
        held_back = sum(rows.filter(time_ms__gt=until_ms).count() for rows in (events, audit))
        events, audit = events.filter(time_ms__lte=until_ms), audit.filter(time_ms__lte=until_ms)
    type_counts = events.order_by().values_list("type").annotate(Count("id"))
    counts = {**dict(type_counts), AUDIT: audit.count()}
    chosen_kind = kind if kind in KINDS or kind in counts else ""
    keys = [*KINDS, *sorted(counts.keys() - KINDS.keys())]
    # Sort the ids of all lines first; then read the rows of one page only.
    every: QuerySet[Any, Any] = _stamps(
        events if chosen_kind in ("", AUDIT) else events.filter(type=chosen_kind), "event"
    )
    trail = _stamps(audit, AUDIT)
    if chosen_kind == AUDIT:
        every = trail
    elif not chosen_kind:
        every = every.union(trail, all=True)
    kind_query = f"kind={quote(chosen_kind)}" if chosen_kind else ""
    size = _FOLDED_PAGE_SIZE if chosen_kind in ("", "task") else PAGE_SIZE
    line_page: Page[Any] = Paginator(every.order_by("-time_ms", "-id"), size).get_page(page)
    stamps = list(line_page)
    return {
        "page": line_page,
        "until": until_ms or (stamps[0][0] if stamps and line_page.number == 1 else 0),
        "held_back": held_back,
        "lines": _lines(stamps, connector),
        "kind": chosen_kind,
        "span": span,
        "query": "".join(f"{part}&" for part in (kind_query, span.query if span else "") if part),
        "range": span.query if span else "",
        "total": sum(counts.values()),
        "kinds": [
            Kind(key, word, icon, counts.get(key, 0), key == chosen_kind)
            for key in keys
            for word, icon in [KINDS.get(key, (key, "info"))]
            if counts.get(key) or key == chosen_kind
        ],
    }


def _stamps(rows: QuerySet[Any], source: str) -> QuerySet[Any, Any]:
    return rows.order_by().values_list("time_ms", "id", Value(source))


def _lines(stamps: list[tuple[int, int, str]], connector: Connector) -> list[Line]:
    events = Event.objects.in_bulk([key for _, key, source in stamps if source != AUDIT])
    audit = AuditEntry.objects.in_bulk([key for _, key, source in stamps if source == AUDIT])
    masker, config = Masker([connector.class_name]), connector.settings
    lines = [_of_entry(entry, masker, config) for entry in audit.values()]
    # An old row may have been dropped since.
    stored_events = [events[key] for _, key, source in stamps if source != AUDIT and key in events]
    for group in fold(event for event in stored_events if not _is_audited(event, audit.values())):
        steps = [(masker.scrub(event.summary, config), event.time_ms) for event in group] if len(group) > 1 else []
        newest = group[0]
        newest.summary = headline(group)
        view = event_view(newest, masker, config)
        lines.append(
            Line(f"e{group[-1].pk}", newest.type, view.icon, view.bad, newest.summary, newest.time_ms, steps=steps)
        )
    return sorted(lines, key=lambda line: -line.time_ms)


def _is_audited(event: Event, entries: Iterable[AuditEntry]) -> bool:
    """Return whether a user's audit entry covers this command's event, and in more detail."""
    if event.type != "command" or json.loads(event.body).get("outcome") != "done":
        return False
    return any(abs(entry.time_ms - event.time_ms) < _SAME_MS for entry in entries if entry.outcome == Outcome.DONE)


def _of_entry(entry: AuditEntry, masker: Masker, config: dict[str, str]) -> Line:
    who = display_name(entry.user, entry.via)
    message = f". {entry.message}" if entry.message else ""
    text = f"{who}: {_action(entry)}, {_OUTCOMES.get(Outcome(entry.outcome), entry.outcome)}{message}"
    settings = ", ".join(json.loads(entry.changed))
    bad = entry.completed and entry.outcome != Outcome.DONE
    return Line(f"a{entry.pk}", AUDIT, "user", bad, masker.scrub(text, config), entry.time_ms, settings)


def _action(entry: AuditEntry) -> str:
    """Describe the action. Earlier releases audited a creation under the permission `edit`."""
    created = entry.action == "edit" and entry.outcome == Outcome.DONE and not json.loads(entry.before or "null")
    return "create" if created and json.loads(entry.after or "null") else entry.action


urlpatterns = [path("", timeline)]
