"""Why a connector's health is what it is: one plain line without any of its settings."""

from ringfence.projection.health import Health
from ringfence.projection.models import Connector
from ringfence.web.known_health import KnownHealth


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def reason(connector: Connector, known: KnownHealth, waits: str = "") -> str:
    """ "" where the word says it all. `waits`: for a slot, in words."""
    if doubt := known.doubt(connector):
        return doubt
    if waits:
        return waits
    count, running, failed = connector.task_count, connector.tasks_running, connector.tasks_failed
    match connector.health:
        case Health.UNHEALTHY:
            if connector.unreadable:
                return "Its configuration in Kafka cannot be read"
            if connector.state == "FAILED":
                return "The connector itself has failed"
            if not failed:
                return "It runs without a task"
            return "Its only task has failed" if failed == 1 else f"All {failed} tasks have failed"
        case Health.DEGRADED:
            return f"{failed} of {_tasks(count)} failed"
        case Health.STALLED:
            usual = f" (until now {connector.usual_pause} min at most)" if connector.usual_pause else ""
            return f"No records for longer than usual{usual}"
        case Health.UNKNOWN:
            return "It reports a state that is not known"
        case Health.STARTING if connector.stale:
            return "Its tasks wait for their new configuration"
        case Health.STARTING | Health.RESTARTING:
            return f"{running} of {_tasks(count)} running"
        case Health.FENCING:
            return "Older tasks are shut out first"
        case Health.PAUSING | Health.STOPPING:
            return "Tasks commit what they have"
    return ""
