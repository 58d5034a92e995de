"""The Generations tab: each generation's configuration compared with the previous one, and the steps of its fencing
round.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest
from django.urls import path

from ringfence.access.authorise import principal_of
from ringfence.access.principal import Verb
from ringfence.history.models import ConfigVersion
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector, Event, GenerationRow
from ringfence.web.connector.config_diff import Change, changes
from ringfence.web.connector.tab_page import tab
from ringfence.web.state_badges import Badge, stage_look

PAGE_SIZE = 20
SHOWN_IDS = 100
_SHOWN_STEPS = 400
NOTHING = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One report of the round."""

    look: Badge
    time_ms: int
    message: str
    credentials: str


@dataclass(frozen=True, slots=True)
class GenerationDetails:
    """A generation for display. version: 0 if none was kept; failed: failed tries of the round; compared: whether the
    previous generation's configuration was kept.
    """

    row: GenerationRow
    look: Badge
    current: bool
    version: int
    changes: Sequence[Change]
    first: bool
    compared: bool
    ids: Sequence[Mapping[str, Any]]
    steps: Sequence[Step]
    failed: int
    credentials: str
    message: str


def changes_between(before: ConfigVersion | None, after: ConfigVersion | None, masker: Masker) -> list[Change]:
    """Return what a generation's configuration changed: computed on the values, shown with secrets masked."""
    if before is None or after is None or before.pk == after.pk:
        return []
    return changes(before.settings, after.settings, masker)


@tab("generations")
def generations(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """A page of generations, the newest first: `?page=`. Configurations are shown only with the permission to read
    them.
    """
    may_read = principal_of(request).may(Verb.VIEW_CONFIG, row.name)
    return _list_generations(row, request.GET.get("page", ""), with_config=may_read)


def _list_generations(connector: Connector, page: str, *, with_config: bool) -> dict[str, Any]:
    rows = GenerationRow.objects.filter(connector=connector.name).order_by("-generation")
    row_page: Page[GenerationRow] = Paginator(rows, PAGE_SIZE).get_page(page)
    page_rows = list(row_page)
    # One more: the oldest of the page is compared with its predecessor.
    older = rows.filter(generation__lt=page_rows[-1].generation).first() if page_rows else None
    versions = _versions(connector, [*page_rows, *([older] if older else [])]) if with_config else {}
    steps = _steps(connector, [row.generation for row in page_rows])
    masker = Masker({connector.class_name, *(one.settings.get("connector.class", "") for one in versions.values())})
    stories = []
    for row, before in zip(page_rows, [*page_rows[1:], older], strict=True):
        events = steps.get(row.generation, [])
        version = versions.get(row.generation)
        previous = versions.get(before.generation) if before else None
        stories.append(
            GenerationDetails(
                row=row,
                look=stage_look(row.stage),
                current=row.generation == connector.generation,
                version=version.number if version else 0,
                changes=changes_between(previous, version, masker),
                first=before is None,
                compared=previous is not None,
                ids=row.fenced_ids[:SHOWN_IDS],
                steps=[_step(body, time_ms, masker, connector) for time_ms, body in events],
                failed=sum(body.get("stage") == "failed" for _, body in events),
                credentials=next((str(body["credentials"]) for _, body in events if body.get("credentials")), NOTHING),
                message=masker.scrub(row.message, connector.settings),
            )
        )
    return {"page": row_page, "stories": stories, "shown_ids": SHOWN_IDS}


def _step(body: Mapping[str, Any], time_ms: int, masker: Masker, connector: Connector) -> Step:
    message = masker.scrub(str(body.get("message") or ""), connector.settings)
    return Step(stage_look(str(body.get("stage") or "")), time_ms, message, str(body.get("credentials") or ""))


def _versions(connector: Connector, rows: Sequence[GenerationRow]) -> dict[int, ConfigVersion]:
    """Return the version of each generation: the newest that is not newer than its configuration."""
    if not rows:
        return {}
    versions = ConfigVersion.objects.filter(connector=connector.name).order_by("-config_offset")
    highest = max(row.config_offset for row in rows)
    lowest = versions.filter(config_offset__lte=min(row.config_offset for row in rows)).first()
    candidates = list(
        versions.filter(config_offset__lte=highest, config_offset__gte=lowest.config_offset if lowest else -1)
    )
    newest = ((row, next((one for one in candidates if one.config_offset <= row.config_offset), None)) for row in rows)
    return {row.generation: one for row, one in newest if one is not None}


def _steps(connector: Connector, numbers: Sequence[int]) -> dict[int, list[tuple[int, dict[str, Any]]]]:
    """Return the reports of these rounds, the oldest first, as far as events are kept."""
    events = Event.objects.filter(connector=connector.name, type="round").order_by("-time_ms", "-id")
    reports: dict[int, list[tuple[int, dict[str, Any]]]] = {}
    for time_ms, text in reversed(list(events.values_list("time_ms", "body")[:_SHOWN_STEPS])):
        body = json.loads(text)
        if body.get("generation") in numbers:
            reports.setdefault(body["generation"], []).append((time_ms, body))
    return reports


urlpatterns = [path("", generations)]
