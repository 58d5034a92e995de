"""The Overview tab: the last hour on the time axis and of each task, commit latency, and the latest events."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.http import HttpRequest
from django.urls import path

from ringfence.access.authorise import principal_of
from ringfence.api.history_series import Scope
from ringfence.fencing.leader.fence_targets import may_keep_own_offsets
from ringfence.http.masking import Masker
from ringfence.projection.models import ActiveTopic, Connector, Event, GenerationRow, SourceOffset, Task
from ringfence.projection.plugin_metrics import metrics_of
from ringfence.projection.task_minutes import ITSELF, join_strips, state_of, strips
from ringfence.web.connector import task_heatmap
from ringfence.web.connector.event_folding import fold, headline
from ringfence.web.connector.header import event_view, facts, now_ms, pretty, tasks_of
from ringfence.web.connector.tab_page import tab
from ringfence.web.hooks.links import is_hook_class
from ringfence.web.state_badges import Badge, look_of_task, stage_look
from ringfence.web.time_axis import draw_axis, read_span

SHOWN_OFFSETS = 8
SHOWN_EVENTS = 25
SHOWN_GENERATIONS = 5
SHOWN_TOPICS = 8
SHOWN_METRICS = 60
LATENCY_MS = 60_000


@dataclass(frozen=True, slots=True)
class GenerationView:
    row: GenerationRow
    look: Badge
    current: bool


@dataclass(frozen=True, slots=True)
class Latency:
    """The mean commit time of a task in the minute before its last report. share: relative to the
    slowest task's mean.
    """

    task: Task
    mean: float
    slowest: float
    count: int
    share: float


@tab("")
def overview(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Return the live context of a connector, with a constant number of queries."""
    now, name = now_ms(), row.name
    masker, config, tasks = Masker([row.class_name]), row.settings, tasks_of(row)
    states = {(name, task.number): state_of(task.state, task.since_ms, task.retry) for task in tasks}
    hour = strips([name], now, now={(name, ITSELF): (row.state, row.since_ms), **states})
    strip_tasks = tasks[: task_heatmap.MOST_TASKS]
    offsets = SourceOffset.objects.filter(connector=name).order_by("-updated_ms", "partition")
    history = list(GenerationRow.objects.filter(connector=name).order_by("-generation")[:SHOWN_GENERATIONS])
    looks = {task.number: look_of_task(task) for task in strip_tasks}
    return {
        **facts(row, tasks, masker),
        "tasks": tasks,
        "axis": draw_axis(Scope(principal_of(request), name), read_span({}, 1), f"/ui/connectors/{row.path}/history"),
        "hour_records": sum(cell.records for cell in join_strips([*hour.values()])),
        "strips": [
            (each, looks.get(each.task) if each.task is not None else None)
            for each in task_heatmap.strips(hour, name, [task.number for task in strip_tasks])
        ],
        "strip_rows": task_heatmap.table(hour, name),
        "strip_box": f"0 0 {task_heatmap.WIDTH} {task_heatmap.HEIGHT}",
        "latencies": latencies(task for task in tasks if task.reported_ms > now - LATENCY_MS),
        "source_metrics": list(islice(metrics_of(tasks, now), SHOWN_METRICS)),
        "open": [task for task in tasks if task.open_since_ms and task.state in ("RUNNING", "PAUSED")],
        "offsets": [(pretty(each.partition), pretty(each.offset), each.updated_ms) for each in offsets[:SHOWN_OFFSETS]],
        "own_offsets": may_keep_own_offsets(config),
        "hook": request.build_absolute_uri(f"/hooks/{row.path}") if is_hook_class(row.class_name) else "",
        "topics": list(
            ActiveTopic.objects.filter(connector=name).order_by("topic").values_list("topic", flat=True)[:SHOWN_TOPICS]
        ),
        "generations": [
            GenerationView(each, stage_look(each.stage), each.generation == row.generation) for each in history
        ],
        "events": [event_view(event, masker, config) for event in _events(name)],
    }


def latencies(tasks: Iterable[Task]) -> list[Latency]:
    """Return the latencies of the tasks that have reported commits, the slowest first."""
    rows = []
    for task in tasks:
        spread = json.loads(task.measures).get("commit_times_ms") or {}
        count = int(spread.get("count") or 0)
        if count:
            rows.append((task, float(spread.get("sum") or 0) / count, float(spread.get("max") or 0), count))
    peak = max((mean for _, mean, _, _ in rows), default=0.0) or 1.0
    slowest_first = sorted(rows, key=lambda each: -each[1])
    return [Latency(task, mean, slowest, count, mean / peak * 100) for task, mean, slowest, count in slowest_first]


def _events(name: str) -> list[Event]:
    """Return the newest events, with a task's steps folded."""
    events = []
    for group in fold(Event.objects.filter(connector=name).order_by("-time_ms", "-id")[: SHOWN_EVENTS * 8]):
        group[0].summary = headline(group)
        events.append(group[0])
    return events[:SHOWN_EVENTS]


urlpatterns = [path("", overview)]
