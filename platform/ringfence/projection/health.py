"""Derives a connector's health from its target state and its tasks' states, like Redpanda Console.

The number is the severity: lists show the highest first.
"""

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

from django.db.models import Count, Min, Q

from ringfence.fencing.topics.status import KAFKA
from ringfence.projection.models import Connector, Minute, RecordTotals, Task


class Health(StrEnum):
    """Derived health, most severe first. WAITING is never stored: it is a motion that lasts (`known_health`)."""

    UNHEALTHY = "UNHEALTHY"
    DEGRADED = "DEGRADED"
    RETRYING = "RETRYING"
    WAITING = "WAITING"
    STALLED = "STALLED"
    UNKNOWN = "UNKNOWN"
    FENCING = "FENCING"
    RESTARTING = "RESTARTING"
    STARTING = "STARTING"
    PAUSING = "PAUSING"
    STOPPING = "STOPPING"
    HEALTHY = "HEALTHY"
    COMPLETE = "COMPLETE"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


SEVERITY = {
    Health.UNHEALTHY: 90,
    Health.DEGRADED: 80,
    Health.RETRYING: 78,
    Health.WAITING: 77,
    Health.STALLED: 75,
    Health.UNKNOWN: 70,
    Health.FENCING: 60,
    Health.RESTARTING: 60,
    Health.STARTING: 50,
    Health.PAUSING: 50,
    Health.STOPPING: 50,
    Health.HEALTHY: 30,
    Health.COMPLETE: 25,
    Health.PAUSED: 20,
    Health.STOPPED: 10,
}

MOTION: Final = frozenset({Health.FENCING, Health.RESTARTING, Health.STARTING, Health.PAUSING, Health.STOPPING})
"""On the way to what was requested."""


class Trouble(StrEnum):
    """Why a connector moves nothing, although it should."""

    NONE = ""
    SOURCE = "source"
    KAFKA = "kafka"
    FAILURE = "failure"
    """A task has failed, and nothing shows that it has recovered (`projection.stalls`)."""
    MOTION = "motion"


RETRYING: Final = "RETRYING"
"""In place of RUNNING, for a task whose source or Kafka refuses, or that has not recovered from a failure."""
RECOVERING: Final = "RECOVERING"
"""In place of the state of a task that has failed, and starts again."""
_AT_WORK: Final = ("RUNNING", RETRYING)
_TRIES_AGAIN: Final = frozenset({RETRYING, RECOVERING})
_KNOWN_STATES = {"", "RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING", *_TRIES_AGAIN}


def health_of(connector: Connector, tasks: Mapping[str, int]) -> Health:  # noqa: C901 - decisions in the order of their rank
    """Return the health. tasks: how many of the newest generation's tasks are in each state, none in no state;
    "" stands for those without a status yet; `RETRYING` and `RECOVERING` in place of some other states.
    """
    if connector.unreadable or connector.state == "FAILED" or tasks.keys() == {"FAILED"}:
        return Health.UNHEALTHY
    if connector.state not in _KNOWN_STATES or any(state not in _KNOWN_STATES for state in tasks):
        return Health.UNKNOWN
    if connector.target == "STOPPED":
        return Health.STOPPED if connector.state == "STOPPED" and not tasks else Health.STOPPING
    if "FAILED" in tasks:
        return Health.DEGRADED
    if connector.fencing:
        return Health.FENCING
    if connector.target == "PAUSED":
        resting = connector.state == "PAUSED" and all(state == "PAUSED" for state in tasks)
        return Health.PAUSED if resting else Health.PAUSING
    if not connector.stale and not _TRIES_AGAIN.isdisjoint(tasks):
        return Health.RETRYING
    if "RESTARTING" in (connector.state, *tasks):
        return Health.RESTARTING
    if connector.state == "RUNNING" and not connector.stale and all(state in _AT_WORK for state in tasks):
        if not tasks:
            return Health.COMPLETE if connector.last_commit_ms else Health.UNHEALTHY
        if connector.stalled:
            return Health.STALLED
        return Health.DEGRADED if connector.recent_skipped or connector.recent_dead_letters else Health.HEALTHY
    return Health.STARTING


def is_past(connector: Connector, task: Task) -> bool:
    """Return whether it failed with a replaced configuration, so that its error does not concern the new one."""
    return _is_past(connector, task.state, task.generation)


def is_recovering(connector: Connector, task: Task) -> bool:
    """Return whether it failed, was started again, and nothing shows that it has recovered."""
    is_current = not connector.stale and task.generation == connector.generation
    return bool(task.failed_ms) and task.state != "FAILED" and is_current


def _is_past(connector: Connector, state: str, generation: int) -> bool:
    return state == "FAILED" and (connector.stale or generation not in (-1, connector.generation))


def refresh(names: Collection[str]) -> None:
    """Update health, severity and counts of these connectors from their rows; delete the rows of those that are gone.

    A few queries for any number of names. Inside the transaction that changed them.
    """
    Task.objects.filter(connector__in=names, known=False, next_config="", state="", reported_ms=0).delete()
    connectors = list(Connector.objects.filter(name__in=names))
    states = _count_states({connector.name: connector for connector in connectors})
    healths = {connector.name: health_of(connector, states[connector.name]) for connector in connectors}
    refusals = _find_refusals([name for name, health in healths.items() if health is Health.RETRYING])
    now_ms = int(time.time() * 1000)
    for connector in connectors:
        tasks, health = states[connector.name], healths[connector.name]
        if health in MOTION:
            lasts = connector.trouble == Trouble.MOTION and connector.health in MOTION
            trouble = Trouble.MOTION, connector.trouble_since_ms if lasts else now_ms
        else:
            trouble = refusals.get(connector.name, (Trouble.NONE, 0))
        connector.trouble, connector.trouble_since_ms = trouble
        if health != connector.health or not connector.health_since_ms:
            connector.health_since_ms = connector.trouble_since_ms or now_ms
        connector.health, connector.severity = health, SEVERITY[health]
        connector.stalled = health is Health.STALLED
        connector.tasks_running = sum(tasks[state] for state in _AT_WORK)
        connector.tasks_failed = tasks["FAILED"]
    # An upsert that always meets its row: many times as fast as bulk_update, which writes a CASE for each field.
    Connector.objects.bulk_create(
        connectors,
        update_conflicts=True,
        update_fields=(
            *("health", "health_since_ms", "severity", "stalled", "tasks_running", "tasks_failed"),
            *("trouble", "trouble_since_ms"),
        ),
        unique_fields=["name"],
        batch_size=80,
    )
    gone_names = [connector.name for connector in connectors if not connector.known and not connector.state]
    if gone_names:
        Connector.objects.filter(name__in=gone_names).delete()
        Task.objects.filter(connector__in=gone_names).delete()
        Minute.objects.filter(connector__in=gone_names).delete()
        RecordTotals.objects.filter(connector__in=gone_names).delete()


def _count_states(connectors: Mapping[str, Connector]) -> Mapping[str, Counter[str]]:
    """Count the tasks of each connector in each state. The database does: a connector may have thousands."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in connectors}
    tasks = Task.objects.filter(connector__in=list(connectors), known=True)
    refuses, failed = ~Q(retry=""), Q(failed_ms__gt=0)
    rows = tasks.values_list("connector", "state", "generation").annotate(
        count=Count("id"),
        retrying=Count("id", filter=refuses),
        failed=Count("id", filter=failed),
        troubled=Count("id", filter=refuses | failed),
    )
    for name, state, generation, count, retrying, failed_before, troubled in rows:
        current = generation == connectors[name].generation
        label, instead, some = state, "", 0
        if _is_past(connectors[name], state, generation):
            label = ""
        elif state == "RUNNING":
            instead, some = RETRYING, troubled if current else retrying
        elif state in ("UNASSIGNED", "RESTARTING") and current:
            instead, some = RECOVERING, failed_before
        counts[name] += Counter({label: count - some})
        counts[name] += Counter({instead: some})
    return counts


def _find_refusals(names: Collection[str]) -> dict[str, tuple[Trouble, int]]:
    """Return the trouble of each of these connectors, all of which are retrying, and since when it lasts."""
    tasks = Task.objects.filter(connector__in=names, known=True)
    retries: dict[str, list[dict[str, object]]] = {}
    for name, retry in tasks.filter(state="RUNNING").exclude(retry="").values_list("connector", "retry"):
        retries.setdefault(name, []).append(json.loads(retry))
    refusals = {
        name: (
            Trouble.KAFKA if all(retry.get("by") == KAFKA for retry in some) else Trouble.SOURCE,
            min(int(str(retry["since_ms"])) for retry in some),
        )
        for name, some in retries.items()
    }
    failures = tasks.filter(failed_ms__gt=0).exclude(connector__in=list(refusals)).values_list("connector")
    refusals.update({name: (Trouble.FAILURE, since) for name, since in failures.annotate(since=Min("failed_ms"))})
    return refusals
