"""The Overview tab: the last hour on the time axis and of each task, commit latency, and the latest events.

The task strip: one row per task, one cell per minute of the last hour, coloured by its worst state, with ticks for
commits, fencing rounds and restarts. It is drawn on the server, and available as text and as a table.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from ringfence import dispatch
from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.v1.history import Scope
from ringfence.dispatch import Refusal
from ringfence.engine.questions import DescribeGuarantee
from ringfence.fencing.leader.fence_targets import may_keep_own_offsets
from ringfence.http.masking import Masker
from ringfence.projection.models import ActiveTopic, Connector, Event, GenerationRow, SourceOffset, Task, find_connector
from ringfence.projection.progress_reports import metrics_of
from ringfence.projection.task_minutes import ITSELF, Cell, Key, join_strips, state_of, strips
from ringfence.web.connector.event_folding import fold, headline
from ringfence.web.connector.header import event_view, facts, now_ms, pretty, tasks_of
from ringfence.web.connector.tab_page import tab
from ringfence.web.hooks.links import is_hook_class
from ringfence.web.state_badges import Badge, Severity, look_of_task, stage_look, task_look
from ringfence.web.time_axis import draw_axis, read_span
from ringfence.web.views import render_gone

WIDTH, HEIGHT = 600, 22
_CELL = 10
_TOP, _TALL = 4, 12
MOST_TASKS = 50


@dataclass(frozen=True, slots=True)
class Strip:
    """SVG path data in a box of WIDTH x HEIGHT, and the same as text. task: None for the connector itself."""

    task: int | None
    cells: Sequence[tuple[Severity, str]]
    commits: str
    fences: str
    restarts: str
    summary: str


def strip(task: int | None, cells: Sequence[Cell]) -> Strip:
    """Draw one row."""
    paths: dict[Severity, list[str]] = {}
    begin = 0
    for index in range(1, len(cells) + 1):
        if index == len(cells) or _tone(cells[index]) is not _tone(cells[begin]):
            tone = _tone(cells[begin])
            if tone is not None:
                width = (index - begin) * _CELL - 1
                paths.setdefault(tone, []).append(f"M{begin * _CELL} {_TOP}h{width}v{_TALL}h-{width}z")
            begin = index
    return Strip(
        task=task,
        cells=[(tone, "".join(parts)) for tone, parts in paths.items()],
        commits=_ticks(cells, "commits", f"{_TOP + _TALL + 1}v4"),
        fences=_ticks(cells, "fences", f"0v{HEIGHT}"),
        restarts=_ticks(cells, "restarts", f"0v{_TOP + _TALL}"),
        summary=_summary(cells),
    )


def _tone(cell: Cell) -> Severity | None:
    return task_look(cell.state).tone if cell.state else None


def _ticks(cells: Sequence[Cell], what: str, line: str) -> str:
    return "".join(f"M{index * _CELL + 4.5} {line}" for index, cell in enumerate(cells) if getattr(cell, what))


def _summary(cells: Sequence[Cell]) -> str:
    """Describe the row as text."""
    minutes: dict[str, int] = {}
    for cell in cells:
        if cell.state:
            word = task_look(cell.state).word.lower()
            minutes[word] = minutes.get(word, 0) + 1
    states = ", ".join(f"{count} min {word}" for word, count in sorted(minutes.items(), key=lambda each: -each[1]))
    parts = [states or "nothing is known"]
    for what in ("commits", "aborted", "fences", "restarts"):
        count = sum(getattr(cell, what) for cell in cells)
        if count:
            parts.append(f"{count} {what if count > 1 or what == 'aborted' else what[:-1]}")
    return "; ".join(parts)


def draw_strips(cells_by_task: Mapping[Key, Sequence[Cell]], connector: str, numbers: Iterable[int]) -> list[Strip]:
    """Return the rows of these tasks, and above them the connector's own if it had fencing rounds: in the worst state
    of all.
    """
    rows = [strip(task, cells_by_task[connector, task]) for task in numbers if (connector, task) in cells_by_task]
    itself = cells_by_task.get((connector, ITSELF))
    if not itself or not any(cell.fences for cell in itself):
        return rows
    every = join_strips([cells for (name, _), cells in cells_by_task.items() if name == connector])
    return [strip(None, [own._replace(state=joint.state) for own, joint in zip(itself, every, strict=True)]), *rows]


_ROW = (
    '<tr><th scope="row" class="name-cell" data-label="Minute">{}</th><td data-label="Worst state">{}</td>'
    '<td class="n" data-label="Records">{:,}</td><td class="n" data-label="Commits">{:,}</td>'
    '<td class="n{}" data-label="Aborted">{:,}</td><td class="n" data-label="Restarts">{:,}</td>'
    '<td class="n" data-label="Fencing rounds">{:,}</td></tr>'
)


def table(cells_by_task: Mapping[Key, Sequence[Cell]], connector: str) -> SafeString:
    """Return table rows for the minutes with activity, the newest first, of all tasks together.

    Not a template: rendering sixty rows took half of the page's time, and open pages fetch it again and again. It
    contains only numbers and our own words.
    """
    every = join_strips([cells for (name, _), cells in cells_by_task.items() if name == connector])
    last = every[-1].minute if every else 0
    minutes = [cell for cell in every if cell.records or cell.commits or cell.aborted or cell.fences or cell.restarts]
    rows = []
    for cell in minutes[::-1]:
        when = f"{last - cell.minute} min ago" if cell.minute < last else "this one"
        word = task_look(cell.state).word if cell.state else "&ndash;"
        bad = " bad-text" if cell.aborted else ""
        counts = (cell.records, cell.commits, bad, cell.aborted, cell.restarts, cell.fences)
        rows.append(_ROW.format(when, word, *counts))
    return mark_safe("".join(rows))  # noqa: S308


def rates(cells_by_task: Mapping[Key, Sequence[Cell]], connector: str) -> list[float]:
    """Return the records of each minute, the oldest first; the last minute is still running."""
    tasks = [cells for (name, task), cells in cells_by_task.items() if name == connector and task != ITSELF]
    return [float(cell.records) for cell in join_strips(tasks)]


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
    strip_tasks = tasks[:MOST_TASKS]
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
            for each in draw_strips(hour, name, [task.number for task in strip_tasks])
        ],
        "strip_rows": table(hour, name),
        "strip_box": f"0 0 {WIDTH} {HEIGHT}",
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


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def guarantee(request: HttpRequest, name: str) -> HttpResponse:
    """What the connector guarantees with its configuration: a fragment that its page fetches.

    A worker's plugin process answers, since only there plugin code may run.
    """
    row = find_connector(name)
    if row is None:
        return render_gone(request, name)
    config = row.settings
    try:
        description = dispatch.ask(DescribeGuarantee({**config, "name": name}))
    except Refusal as error:
        return render(request, "ringfence/parts/guarantee.html", {"problem": error.message})
    description["why"] = Masker([row.class_name]).scrub(description["why"], config)
    return render(request, "ringfence/parts/guarantee.html", {"guarantee": description})


urlpatterns = [path("", overview), path("/guarantee", guarantee)]
