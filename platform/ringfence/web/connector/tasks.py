"""The Tasks tab: each task's state, worker, generation, attempts and next automatic restart, and its history."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest
from django.urls import path

from ringfence.alerts.root_causes import Cause, cause_of
from ringfence.fencing.topics.status import MISCONFIGURED
from ringfence.http.masking import Masker
from ringfence.projection import record_totals
from ringfence.projection.health import is_past
from ringfence.projection.models import Connector, Event, GenerationRow, RecordTotals, Task
from ringfence.web.connector.event_folding import Attempts, fold_attempts
from ringfence.web.connector.header import now_ms
from ringfence.web.connector.tab_page import tab
from ringfence.web.lists.connector_query import rate_of
from ringfence.web.state_badges import Badge, look_of_task, task_look

PAGE_SIZE = 100
STEPS = 400


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task for display. totals: over all of its attempts; cause: why it failed; restart: why it does not restart
    automatically; generation: counted from 1, 0 if unknown.
    """

    task: Task
    totals: RecordTotals
    look: Badge
    rate: float | None
    old: bool
    cause: Cause | None
    restart: str
    generation: int


@tab("tasks")
def tasks(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """`?page=`."""
    known_tasks = Task.objects.filter(connector=row.name, known=True).order_by("number")
    page: Page[Task] = Paginator(known_tasks, PAGE_SIZE).get_page(request.GET.get("page", ""))
    totals = record_totals.of_tasks([row.name])
    generations = GenerationRow.objects.filter(connector=row.name, generation__in={task.generation for task in page})
    numbers = dict(generations.values_list("generation", "number"))
    masker, config, now = Masker([row.class_name]), row.settings, now_ms()
    return {
        "page": page,
        "views": [
            _view(
                numbers,
                task,
                row,
                masker.scrub(task.trace or task.why, config),
                now,
                totals.get((row.name, task.number)) or RecordTotals(),
            )
            for task in page
        ],
        "attempts": _attempts(row, masker, config),
        "reported": bool(record_totals.find_reported([row.name])),
    }


def _view(
    numbers: Mapping[int, int], task: Task, row: Connector, trace: str, now: int, totals: RecordTotals
) -> TaskRow:
    past = is_past(row, task)
    failed = task.state == "FAILED" and not past
    return TaskRow(
        task=task,
        totals=totals,
        look=task_look("UNASSIGNED") if past else look_of_task(task),
        rate=rate_of([task], now),
        old=task.generation not in (-1, row.generation),
        cause=cause_of(trace) if failed else None,
        generation=numbers.get(task.generation, 0),
        restart=_restart(task) if failed and not task.next_restart_ms else "",
    )


def _restart(task: Task) -> str:
    if task.why == MISCONFIGURED:
        return "not automatically: the configuration is invalid"
    return f"no longer automatically, after {task.restarts} in a row" if task.restarts else "not automatically"


def _attempts(row: Connector, masker: Masker, config: dict[str, str]) -> list[Attempts]:
    """Return the newest attempts, as far as events are kept."""
    events = Event.objects.filter(connector=row.name, type="task", task__isnull=False).order_by("-time_ms", "-id")
    return fold_attempts(events[:STEPS], lambda text: masker.scrub(text, config))


urlpatterns = [path("", tasks)]
