"""Derives a connector's health from its target state and its tasks' states, like Redpanda Console.

The number is the severity: lists show the highest first.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

from django.db.models import Count, Q

from ringfence.projection.models import Connector, Minute, RecordTotals, Task


class Health(StrEnum):
    """Derived health, most severe first."""

    UNHEALTHY = "UNHEALTHY"
    DEGRADED = "DEGRADED"
    RETRYING = "RETRYING"
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

RETRYING: Final = "RETRYING"
"""In place of RUNNING, for a task whose source refuses."""
_AT_WORK: Final = ("RUNNING", RETRYING)
_KNOWN_STATES = {"", "RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING", RETRYING}


def health_of(connector: Connector, tasks: Mapping[str, int]) -> Health:  # noqa: C901 - decisions in the order of their rank
    """Return the health. tasks: how many of the newest generation's tasks are in each state, none in no state;
    "" stands for those without a status yet, `RETRYING` for those whose source refuses.
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
    if "RESTARTING" in (connector.state, *tasks):
        return Health.RESTARTING
    if connector.state == "RUNNING" and not connector.stale and all(state in _AT_WORK for state in tasks):
        if not tasks:
            return Health.COMPLETE if connector.last_commit_ms else Health.UNHEALTHY
        if RETRYING in tasks:
            return Health.RETRYING
        if connector.stalled:
            return Health.STALLED
        return Health.DEGRADED if connector.recent_skipped or connector.recent_dead_letters else Health.HEALTHY
    return Health.STARTING


def is_past(connector: Connector, task: Task) -> bool:
    """Return whether it failed with a replaced configuration, so that its error does not concern the new one."""
    return _is_past(connector, task.state, task.generation)


def _is_past(connector: Connector, state: str, generation: int) -> bool:
    return state == "FAILED" and (connector.stale or generation not in (-1, connector.generation))


def refresh(names: Collection[str]) -> None:
    """Update health, severity and counts of these connectors from their rows; delete the rows of those that are gone.

    A few queries for any number of names. Inside the transaction that changed them.
    """
    Task.objects.filter(connector__in=names, known=False, next_config="", state="", reported_ms=0).delete()
    connectors = list(Connector.objects.filter(name__in=names))
    states = _count_states({connector.name: connector for connector in connectors})
    for connector in connectors:
        tasks = states[connector.name]
        health = health_of(connector, tasks)
        connector.health, connector.severity = health, SEVERITY[health]
        connector.stalled = health is Health.STALLED
        connector.tasks_running = sum(tasks[state] for state in _AT_WORK)
        connector.tasks_failed = tasks["FAILED"]
    # An upsert that always meets its row: many times as fast as bulk_update, which writes a CASE for each field.
    Connector.objects.bulk_create(
        connectors,
        update_conflicts=True,
        update_fields=("health", "severity", "stalled", "tasks_running", "tasks_failed"),
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
    retries = Count("id", filter=~Q(retry=""))
    rows = tasks.values_list("connector", "state", "generation").annotate(count=Count("id"), retries=retries)
    for name, state, generation, count, retrying in rows:
        past = _is_past(connectors[name], state, generation)
        counts[name] += Counter({"" if past else state: count - retrying, RETRYING: retrying})
    return counts
