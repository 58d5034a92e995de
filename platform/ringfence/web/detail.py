"""Everything that a connector's page shows, in a constant number of queries."""

import json
import time
from dataclasses import dataclass
from typing import Any

from django.db.models import Sum

from fencing.targets import may_keep_own_offsets
from ringfence.api.masking import Masker
from ringfence.mirror.models import ClusterInfo, Connector, Event, GenerationRow, Minute, SourceOffset, Task
from ringfence.web.listing import LIVE_MS, rate_of
from ringfence.web.pictures import bars, line, rates
from ringfence.web.states import Look, look_of, stage_look, task_look
from ringfence.web.traces import Failure, cause_of, grouped

SHOWN_OFFSETS = 50
SHOWN_EVENTS = 25
SHOWN_GENERATIONS = 8
_PASSING_STAGES = ("reading", "initialising", "starting", "creating", "waiting")

_EVENT_ICONS = {
    "round": "fence",
    "task": "cpu",
    "leader": "crown",
    "command": "zap",
    "log": "list",
    "warning": "triangle-alert",
}


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task for people."""

    task: Task
    look: Look
    rate: float
    trace: str


@dataclass(frozen=True, slots=True)
class GenerationView:
    row: GenerationRow
    look: Look
    current: bool


@dataclass(frozen=True, slots=True)
class EventView:
    event: Event
    icon: str
    bad: bool


def now_ms() -> int:
    return int(time.time() * 1000)


def facts(connector: Connector) -> dict[str, Any]:
    """What stands above the tabs, on each of them."""
    tasks = list(Task.objects.filter(connector=connector.name, known=True).order_by("number"))
    return _facts(connector, tasks, Masker([connector.class_name]), now_ms())


def _facts(connector: Connector, tasks: list[Task], masker: Masker, now: int) -> dict[str, Any]:
    config = connector.settings
    trace = masker.scrubbed(connector.unreadable or connector.trace, config)
    return {
        "connector": connector,
        "look": look_of(connector),
        "wish": wish(connector),
        "trace": trace,
        "cause": cause_of(trace) if trace else None,
        "failures": failures(tasks, masker, config),
        "rate": rate_of(tasks, now),
        "records": sum(task.records_total for task in tasks),
        "aborted": sum(task.aborted for task in tasks),
        "last_commit_ms": max((task.last_commit_ms for task in tasks), default=0),
        "offset_count": SourceOffset.objects.filter(connector=connector.name).count(),
        "leader": ClusterInfo.objects.values_list("leader", flat=True).first() or "",
        "now_ms": now,
    }


def detail(connector: Connector) -> dict[str, Any]:
    """What the live part of the overview shows."""
    now = now_ms()
    masker = Masker([connector.class_name])
    config = connector.settings
    tasks = list(Task.objects.filter(connector=connector.name, known=True).order_by("number"))
    minute = now // 60_000
    cells = Minute.objects.filter(connector=connector.name, minute__gt=minute - 60)
    by_minute = cells.values("minute").annotate(records=Sum("records"), aborted=Sum("aborted")).order_by()
    offsets = SourceOffset.objects.filter(connector=connector.name).order_by("partition")
    history = list(GenerationRow.objects.filter(connector=connector.name).order_by("-generation")[:SHOWN_GENERATIONS])
    return {
        **_facts(connector, tasks, masker, now),
        "tasks": [_task_view(task, masker, config, now) for task in tasks],
        "picture": line(rates(tasks, now)),
        "bars": bars({cell["minute"]: (cell["records"], cell["aborted"]) for cell in by_minute}, minute),
        "hour_records": sum(cell["records"] for cell in by_minute),
        "offsets": [(pretty(row.partition), pretty(row.offset), row.updated_ms) for row in offsets[:SHOWN_OFFSETS]],
        "own_offsets": may_keep_own_offsets(config),
        "generations": [
            GenerationView(row, stage_look(row.stage), row.generation == connector.generation) for row in history
        ],
        "events": [event_view(event, masker, config) for event in _events(connector.name)],
    }


def wish(connector: Connector) -> str:
    """What was asked for and is not there yet; "" where the state is what is wanted."""
    wanted = {"RUNNING": "Resume", "PAUSED": "Pause", "STOPPED": "Stop"}
    reached = {"RUNNING": {"RUNNING", "FAILED", "UNASSIGNED", "RESTARTING", ""}}.get(
        connector.target, {connector.target}
    )
    return "" if connector.state in reached else wanted.get(connector.target, "")


def failures(tasks: list[Task], masker: Masker, config: dict[str, str]) -> list[Failure]:
    """Failed tasks grouped by equal traces, the most frequent first."""
    failed = (task for task in tasks if task.state == "FAILED")
    return grouped((task.number, masker.scrubbed(task.trace or task.why, config)) for task in failed)


def _task_view(task: Task, masker: Masker, config: dict[str, str], now: int) -> TaskView:
    rate = task.rate if task.reported_ms > now - LIVE_MS else 0.0
    return TaskView(task, task_look(task.state), rate, masker.scrubbed(task.trace, config))


def pretty(text: str) -> str:
    """`{"file":"x"}` as `file: x`, for the eye; nested values stay JSON."""
    value = json.loads(text)
    if not isinstance(value, dict):
        return text
    return ", ".join(
        f"{key}: {item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)}"
        for key, item in value.items()
    )


def _events(name: str) -> list[Event]:
    """The newest events. Of a task's stages on its way up only the one that it is in by now is worth a line."""
    told: list[Event] = []
    seen: set[int | None] = set()
    for event in Event.objects.filter(connector=name).order_by("-time_ms", "-id")[: SHOWN_EVENTS * 4]:
        passing = event.type == "task" and event.task in seen
        if not passing or not json.loads(event.body).get("stage", "").startswith(_PASSING_STAGES):
            told.append(event)
        if event.type == "task":
            seen.add(event.task)
    return told[:SHOWN_EVENTS]


def event_view(event: Event, masker: Masker, config: dict[str, str]) -> EventView:
    """An event for people, without secrets."""
    event.summary = masker.scrubbed(event.summary, config)
    lowered = event.summary.lower()
    bad = event.type == "warning" or any(word in lowered for word in ("fail", "error", "refused"))
    return EventView(event, _EVENT_ICONS.get(event.type, "info"), bad)
