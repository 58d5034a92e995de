"""Explains a connector's health in one line of text, without any of its settings."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.plural_forms import write_count
from ringfence.projection.health import Health, Trouble
from ringfence.projection.known_health import KnownHealth
from ringfence.projection.models import Connector, Task

_WAITS: Final[Mapping[str, str]] = {
    "placed": "It is placed on {worker}, which has not started it yet",
    "restarted": "Its restart on {worker} has not begun yet",
    "lost": "Its attempt was lost, and no worker has a free slot for it",
    "": "It has no worker yet",
}
"""By `Task.why`."""


def describe_wait(task: Task, slots: str) -> str:
    """Return the message. slots: for a task without a slot. An attempt's own words may name settings: mask them."""
    if task.why == "no-slot":
        return slots
    return _WAITS.get(task.why, "").format(worker=task.worker or "a worker") or task.why


_TROUBLES: Final[Mapping[str, str]] = {
    Trouble.SOURCE: "Its source cannot be read; it is tried again",
    Trouble.KAFKA: "Kafka takes none of its records; it is tried again",
    Trouble.FAILURE: "A task has failed and starts again; nothing has flowed since",
}
_FIXED: Final[Mapping[str, str]] = {
    Health.UNKNOWN: "It reports an unknown state",
    Health.FENCING: "Older tasks are fenced first",
    Health.PAUSING: "Tasks commit what they have",
    Health.STOPPING: "Tasks commit what they have",
}


def describe_duration(ms: int) -> str:
    """Write a duration as people say it: `40 s`, `3 min`, `2 h`, `5 d`."""
    seconds = ms // 1000
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _tasks(count: int) -> str:
    return write_count(count, "task")


def bad_records(dead_letters: int, skipped: int) -> str:
    """Describe the records that did not reach their topics; "" for none."""
    letters = write_count(dead_letters, "dead letter") if dead_letters else ""
    skips = f"{write_count(skipped, 'record')} skipped" if skipped else ""
    return ", ".join(filter(None, (letters, skips)))


def reason(connector: Connector, health: KnownHealth, waits: str = "") -> str:
    """Return the reason, "" if the health's name is clear enough. waits: the message about slots."""
    return health.doubt(connector) or waits or reason_of_health(connector)


def reason_with_time(connector: Connector, health: KnownHealth, waits: str = "") -> str:
    """Return the same, with the time that it has lasted, where nothing beside it says so."""
    text, lasts_ms = reason(connector, health, waits), health.lasts_ms(connector)
    if health.health_of(connector) in (Health.WAITING, Health.RETRYING) and lasts_ms >= 1000:
        return f"{text}, for {describe_duration(lasts_ms)}" if text else f"For {describe_duration(lasts_ms)}"
    return text


def reason_of_health(connector: Connector) -> str:
    """Return the reason, "" if the health's name is clear enough."""
    count, running, failed = connector.task_count, connector.tasks_running, connector.tasks_failed
    match connector.health:
        case Health.RETRYING:
            return _TROUBLES.get(connector.trouble, "It is tried again")
        case Health.UNHEALTHY:
            return _reason_of_failure(connector)
        case Health.DEGRADED if failed:
            return f"{failed} of {_tasks(count)} failed"
        case Health.DEGRADED:
            return f"{bad_records(connector.recent_dead_letters, connector.recent_skipped)} in the last hour"
        case Health.STALLED:
            usual = f" (until now {connector.usual_pause} min at most)" if connector.usual_pause else ""
            return f"No records for longer than usual{usual}"
        case Health.STARTING if connector.stale:
            return "Its tasks wait for their new configuration"
        case Health.STARTING | Health.RESTARTING:
            return f"{running} of {_tasks(count)} running"
    return _FIXED.get(connector.health, "")


def _reason_of_failure(connector: Connector) -> str:
    if connector.unreadable:
        return "Its configuration in Kafka cannot be read"
    if connector.state == "FAILED":
        return "The connector itself has failed"
    match connector.tasks_failed:
        case 0:
            return "It runs without a task"
        case 1:
            return "Its only task has failed"
        case failed:
            return f"All {failed} tasks have failed"
