"""The Tasks tab: each task's state, worker, generation, attempts and next automatic restart; what they went through."""

import json
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest

from ringfence.fencing.topics.status import MISCONFIGURED
from ringfence.http.masking import Masker
from ringfence.projection import record_totals
from ringfence.projection.models import Connector, Event, RecordTotals, Task
from ringfence.web.connector.frame import tab
from ringfence.web.connector.header import now_ms
from ringfence.web.connector.traces import Cause, cause_of
from ringfence.web.lists.query import LIVE_MS
from ringfence.web.state_badges import Badge, task_look

PAGE_SIZE = 100
STEPS = 40


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task for people. `totals`: over all of its attempts; `cause`: of a failed one; `restart`: what is said of its
    next automatic restart."""

    task: Task
    totals: RecordTotals
    look: Badge
    rate: float
    old: bool
    cause: Cause | None
    restart: str


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an attempt."""

    task: int
    attempt: int
    worker: str
    text: str
    bad: bool
    time_ms: int


@tab("tasks")
def tasks(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """`?page=`."""
    found = Task.objects.filter(connector=row.name, known=True).order_by("number")
    page: Page[Task] = Paginator(found, PAGE_SIZE).get_page(request.GET.get("page", ""))
    totals = record_totals.of_tasks([row.name])
    masker, config, now = Masker([row.class_name]), row.settings, now_ms()
    return {
        "page": page,
        "views": [
            _view(
                task,
                row,
                masker.scrub(task.trace or task.why, config),
                now,
                totals.get((row.name, task.number)) or RecordTotals(),
            )
            for task in page
        ],
        "steps": _steps(row, masker, config),
    }


def _view(task: Task, row: Connector, trace: str, now: int, totals: RecordTotals) -> TaskView:
    failed = task.state == "FAILED"
    return TaskView(
        task=task,
        totals=totals,
        look=task_look(task.state),
        rate=task.rate if task.reported_ms > now - LIVE_MS else 0.0,
        old=task.generation not in (-1, row.generation),
        cause=cause_of(trace) if failed else None,
        restart=_restart(task) if failed and not task.next_restart_ms else "",
    )


def _restart(task: Task) -> str:
    if task.why == MISCONFIGURED:
        return "not by itself: the configuration is to blame"
    return f"not by itself any more, after {task.restarts} in a row" if task.restarts else "not by itself"


def _steps(row: Connector, masker: Masker, config: dict[str, str]) -> list[Step]:
    """The newest steps of attempts, as long as events are kept."""
    events = Event.objects.filter(connector=row.name, type="task", task__isnull=False).order_by("-time_ms", "-id")
    told = []
    for number, time_ms, text in events.values_list("task", "time_ms", "body")[:STEPS]:
        body = json.loads(text)
        stage, message = str(body.get("stage") or ""), masker.scrub(str(body.get("message") or ""), config)
        said = f"{stage}: {message}" if message else stage
        told.append(
            Step(
                int(number or 0),
                int(body.get("attempt") or 0),
                str(body.get("worker") or ""),
                said,
                stage in ("failed", "lost"),
                time_ms,
            )
        )
    return told
