"""The part above a connector's tabs, and how all tabs format events and offsets."""

import json
import time
from dataclasses import dataclass, replace
from typing import Any

from ringfence.alerts.models import Incident
from ringfence.alerts.root_causes import Failure, Refusal, cause_of, group_refusals, group_traces
from ringfence.http.masking import Masker
from ringfence.projection.connector_notes import read_notes
from ringfence.projection.health import (
    Health,
    bad_records,
    describe_wait,
    find_data_age,
    is_past,
    is_recovering,
    known_health,
    leader_of,
    reason,
)
from ringfence.projection.models import ActiveTopic, ClusterInfo, Connector, Event, GenerationRow, SourceOffset, Task
from ringfence.projection.record_totals import find_reported
from ringfence.projection.slots import REMEDY, count_slots, waits_for_slot
from ringfence.web.connector.transaction_lanes import open_now
from ringfence.web.lists.connector_query import rate_of
from ringfence.web.state_badges import look_of

_SHOWN_TOPICS = 3
_EVENT_ICONS = {
    "round": "fence",
    "task": "cpu",
    "leader": "crown",
    "command": "zap",
    "log": "list",
    "warning": "triangle-alert",
}


@dataclass(frozen=True, slots=True)
class EventView:
    event: Event
    icon: str
    bad: bool


def now_ms() -> int:
    return int(time.time() * 1000)


def tasks_of(connector: Connector) -> list[Task]:
    """Return the tasks in order, without their configurations."""
    return list(Task.objects.filter(connector=connector.name, known=True).order_by("number").defer("config"))


def facts(connector: Connector, tasks: list[Task] | None = None, masker: Masker | None = None) -> dict[str, Any]:
    """Return the context of the part above the tabs. tasks, masker: pass them if they are at hand."""
    tasks, now = tasks_of(connector) if tasks is None else tasks, now_ms()
    masker, health = masker or Masker([connector.class_name]), known_health()
    config = connector.settings
    trace = masker.scrub(connector.unreadable or connector.trace, config)
    offset_count = SourceOffset.objects.filter(connector=connector.name).count()
    return {
        "connector": connector,
        "notes": read_notes(config),
        "writes_to": list(
            ActiveTopic.objects.filter(connector=connector.name)
            .order_by("topic")
            .values_list("topic", flat=True)[: _SHOWN_TOPICS + 1]
        ),
        "look": look_of(connector, health),
        "doubt": health.doubt(connector),
        "wish": wish(connector),
        "trace": trace,
        "cause": cause_of(trace) if trace else None,
        "since_ms": health.since_ms(connector),
        "waits": waits(connector, tasks, masker, config) if health.health_of(connector) is Health.WAITING else [],
        "waits_for": reason(connector, health),
        "failures": failures([task for task in tasks if not is_past(connector, task)], masker, config)
        + past_failures([task for task in tasks if is_recovering(connector, task)], masker, config),
        "refusals": refusals(tasks, masker, config),
        "rate": None if health.vitals.stale else rate_of(tasks, now),
        "records": connector.records_total,
        "reported": bool(find_reported([connector.name])),
        "bad_records": bad_records(connector.dead_letters_total, connector.skipped_total),
        "recent_bad_records": bad_records(connector.recent_dead_letters, connector.recent_skipped),
        "open_count": sum(open_now(task) for task in tasks),
        "last_commit_ms": connector.last_commit_ms,
        "data_as_of_ms": find_data_age(tasks),
        "offset_count": offset_count,
        "leader": leader_of(health.vitals, ClusterInfo.objects.values_list("leader", flat=True).first() or ""),
        "slots": waits_for_slot(tasks, now),
        "slots_remedy": REMEDY,
        "task_workers": sorted({task.worker for task in tasks if task.state == "RUNNING" and task.worker}),
        "incidents": list(Incident.objects.filter(connector=connector.name, resolved_ms=0).order_by("pk")[:5]),
        "now_ms": now,
    }


def count_open(connector: Connector) -> int:
    """Return how many of its tasks have a transaction open, as they last reported."""
    return sum(open_now(task) for task in tasks_of(connector))


def wish(connector: Connector) -> str:
    """Return the requested state that is not reached yet; "" if the current state is the requested one."""
    wishes = {"RUNNING": "Resume", "PAUSED": "Pause", "STOPPED": "Stop"}
    reached_states = {"RUNNING": {"RUNNING", "FAILED", "UNASSIGNED", "RESTARTING", ""}}.get(
        connector.target, {connector.target}
    )
    return "" if connector.state in reached_states else wishes.get(connector.target, "")


@dataclass(frozen=True, slots=True)
class Wait:
    """What some tasks wait for; without tasks, the connector."""

    text: str
    tasks: tuple[int, ...] = ()


def waits(connector: Connector, tasks: list[Task], masker: Masker, config: dict[str, str]) -> list[Wait]:
    """Group the tasks that do not run by what they wait for."""
    if connector.fencing:
        row = GenerationRow.objects.filter(connector=connector.name).order_by("-generation").first()
        text = masker.scrub(row.message, config) if row is not None and row.message else ""
        return [Wait(text or "Its older tasks are fenced first, and that is not done yet")]
    slots = count_slots().waits
    groups: dict[str, list[int]] = {}
    for task in tasks:
        if task.state in ("UNASSIGNED", "RESTARTING", ""):
            groups.setdefault(masker.scrub(describe_wait(task, slots), config), []).append(task.number)
    return [Wait(text, tuple(numbers)) for text, numbers in groups.items()] or [Wait("It has no task that runs yet")]


def failures(tasks: list[Task], masker: Masker, config: dict[str, str]) -> list[Failure]:
    """Group failed tasks by equal traces, the most frequent first."""
    failed_tasks = [task for task in tasks if task.state == "FAILED"]
    by_number = {task.number: task for task in failed_tasks}
    groups = group_traces((task.number, masker.scrub(task.trace or task.why, config)) for task in failed_tasks)
    return [_with_its_record(each, [by_number[number] for number in each.tasks]) for each in groups]


def past_failures(tasks: list[Task], masker: Masker, config: dict[str, str]) -> list[Failure]:
    """Group the last failures of tasks that were started again and have not recovered."""
    by_number = {task.number: task for task in tasks}
    return [
        replace(
            group,
            record=by_number[group.tasks[0]].last_failed_record,
            past_ms=max(by_number[number].failed_ms for number in group.tasks),
        )
        for group in group_traces((task.number, masker.scrub(task.failed_trace, config)) for task in tasks)
    ]


def refusals(tasks: list[Task], masker: Masker, config: dict[str, str]) -> list[Refusal]:
    """Group the tasks whose source refuses by its message."""
    retries = [(task.number, retry) for task in tasks if (retry := task.poll_retry) is not None]
    return group_refusals(retries, lambda text: masker.scrub(text, config))


def _with_its_record(failure: Failure, tasks: list[Task]) -> Failure:
    next_ms = min((task.next_restart_ms for task in tasks if task.next_restart_ms), default=0)
    return replace(failure, record=tasks[0].record_failure, next_ms=next_ms)


def pretty(text: str) -> str:
    """Format `{"file":"x"}` as `file: x`. Nested values stay JSON."""
    value = json.loads(text)
    if not isinstance(value, dict):
        return text
    return ", ".join(
        f"{key}: {item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)}"
        for key, item in value.items()
    )


def event_view(event: Event, masker: Masker, config: dict[str, str]) -> EventView:
    """Return an event for display, without secrets."""
    event.summary = masker.scrub(event.summary, config)
    text = event.summary.lower()
    bad = event.type == "warning" or any(word in text for word in ("fail", "error", "refused"))
    return EventView(event, _EVENT_ICONS.get(event.type, "info"), bad)
