"""Derives a connector's health from its target state and its tasks' states, like Redpanda Console.

The number is the severity: lists show the highest first.
"""

import json
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

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
    """A task has failed, and nothing shows that it has recovered (`projection.recoveries`)."""
    MOTION = "motion"


RETRYING: Final = "RETRYING"
"""In place of RUNNING, for a task whose source or Kafka refuses, or that has not recovered from a failure."""
RECOVERING: Final = "RECOVERING"
"""In place of the state of a task that has failed, and starts again."""
_AT_WORK: Final = ("RUNNING", RETRYING)
_TRIES_AGAIN: Final = frozenset({RETRYING, RECOVERING})
_KNOWN_STATES = {"", "RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING", *_TRIES_AGAIN}


def health_of(connector: Connector, tasks: Sequence[str]) -> Health:  # noqa: C901 - decisions in the order of their rank
    """Return the health. tasks: the states of the newest generation's tasks, "" for one without a status yet;
    `RETRYING` and `RECOVERING` in place of some others.
    """
    failed = tasks.count("FAILED")
    if connector.unreadable or connector.state == "FAILED" or (tasks and failed == len(tasks)):
        return Health.UNHEALTHY
    if connector.state not in _KNOWN_STATES or any(state not in _KNOWN_STATES for state in tasks):
        return Health.UNKNOWN
    if connector.target == "STOPPED":
        return Health.STOPPED if connector.state == "STOPPED" and not tasks else Health.STOPPING
    if failed:
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


class _Status(NamedTuple):
    """What a task's row says of its state."""

    state: str
    generation: int
    retry: str
    failed_ms: int

    def shown_for(self, connector: Connector) -> str:
        """Return the state that counts for the connector's health."""
        if _is_past(connector, self.state, self.generation):
            return ""
        recovering = self.failed_ms and self.generation == connector.generation
        if self.state == "RUNNING":
            return RETRYING if self.retry or recovering else self.state
        return RECOVERING if recovering and self.state in ("UNASSIGNED", "RESTARTING") else self.state


def _trouble_of(connector: Connector, health: Health, tasks: Sequence[_Status], now_ms: int) -> tuple[Trouble, int]:
    """Return the trouble, and since when it lasts. connector: with the health and the trouble until now."""
    if health in MOTION:
        lasts = connector.trouble == Trouble.MOTION and connector.health in MOTION
        return Trouble.MOTION, connector.trouble_since_ms if lasts else now_ms
    if health is not Health.RETRYING:
        return Trouble.NONE, 0
    retries = [json.loads(task.retry) for task in tasks if task.retry and task.state == "RUNNING"]
    if not retries:
        return Trouble.FAILURE, min(task.failed_ms for task in tasks if task.failed_ms)
    by_kafka = all(retry.get("by") == KAFKA for retry in retries)
    return Trouble.KAFKA if by_kafka else Trouble.SOURCE, min(retry["since_ms"] for retry in retries)


def refresh(names: set[str]) -> None:
    """Update health, severity and counts of these connectors from their rows; delete the rows of those that are gone.

    Three queries for any number of names. Inside the transaction that changed them.
    """
    Task.objects.filter(connector__in=names, known=False, next_config="", state="", reported_ms=0).delete()
    known_tasks: dict[str, list[_Status]] = {}
    rows = Task.objects.filter(connector__in=names, known=True)
    values = rows.values_list("connector", "state", "generation", "retry", "failed_ms")
    for name, state, generation, retry, failed_ms in values:  # plain values: a connector may have thousands
        known_tasks.setdefault(name, []).append(_Status(state, generation, retry, failed_ms))
    connectors = list(Connector.objects.filter(name__in=names))
    now_ms = int(time.time() * 1000)
    for connector in connectors:
        statuses = known_tasks.get(connector.name, [])
        tasks = [each.shown_for(connector) for each in statuses]
        health = health_of(connector, tasks)
        connector.trouble, connector.trouble_since_ms = _trouble_of(connector, health, statuses, now_ms)
        if health != connector.health or not connector.health_since_ms:
            connector.health_since_ms = connector.trouble_since_ms or now_ms
        connector.health, connector.severity = health, SEVERITY[health]
        connector.stalled = health is Health.STALLED
        connector.tasks_running = sum(state in _AT_WORK for state in tasks)
        connector.tasks_failed = tasks.count("FAILED")
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
