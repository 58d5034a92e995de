"""How states look: an icon, a word and one of six classes; never a colour alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ringfence.projection.health import ATTENTION, MOTION, RETRYING, Health, KnownHealth
from ringfence.projection.models import Connector, Task


class Severity(StrEnum):
    """The six classes of the stylesheet."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    MOTION = "motion"
    REST = "rest"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Badge:
    """A state for display."""

    word: str
    icon: str
    tone: Severity
    help: str = ""


HEALTH = {
    Health.HEALTHY: Badge("Healthy", "circle-check", Severity.OK, "Running, and so are all of its tasks."),
    Health.DEGRADED: Badge(
        "Degraded",
        "triangle-alert",
        Severity.WARN,
        "Some of its tasks have failed, or records were skipped in the last hour.",
    ),
    Health.UNHEALTHY: Badge("Unhealthy", "circle-x", Severity.BAD, "It has failed, or runs without a working task."),
    Health.RETRYING: Badge(
        "Retrying", "rotate-cw", Severity.WARN, "Its source or Kafka refuses, or a task has failed. It tries again."
    ),
    Health.WAITING: Badge(
        "Waiting", "hourglass", Severity.WARN, "For more than 30 s it has not reached the requested state."
    ),
    Health.STALLED: Badge("Stalled", "hourglass", Severity.WARN, "It runs, but moves nothing for longer than usual."),
    Health.FENCING: Badge("Fencing", "fence", Severity.MOTION, "Older tasks are fenced before the new ones may write."),
    Health.RESTARTING: Badge("Restarting", "rotate-cw", Severity.MOTION, "Tasks are being restarted."),
    Health.STARTING: Badge("Starting", "loader", Severity.MOTION, "Tasks are about to run."),
    Health.PAUSING: Badge("Pausing", "loader", Severity.MOTION, "Tasks commit what they have and then pause."),
    Health.STOPPING: Badge("Stopping", "loader", Severity.MOTION, "Tasks commit what they have and then end."),
    Health.COMPLETE: Badge(
        "Complete", "circle-check", Severity.REST, "Its tasks have committed, and it has no more work for tasks."
    ),
    Health.PAUSED: Badge("Paused", "circle-pause", Severity.REST, "Tasks are kept ready and read nothing."),
    Health.STOPPED: Badge("Stopped", "circle-stop", Severity.REST, "No tasks exist; offsets may be changed."),
    Health.UNKNOWN: Badge("Unknown", "circle-question-mark", Severity.UNKNOWN, "It reports an unknown state."),
}

TASK = {
    "RUNNING": Badge("Running", "circle-check", Severity.OK),
    "PAUSED": Badge("Paused", "circle-pause", Severity.REST),
    "STOPPED": Badge("Stopped", "circle-stop", Severity.REST),
    "FAILED": Badge("Failed", "circle-x", Severity.BAD),
    "UNASSIGNED": Badge("Waiting", "hourglass", Severity.MOTION),
    "RESTARTING": Badge("Restarting", "rotate-cw", Severity.MOTION),
    RETRYING: Badge("Retrying", "rotate-cw", Severity.WARN),
    "": Badge("Starting", "loader", Severity.MOTION),
}

STAGE = {
    "done": Badge("Done", "shield-check", Severity.OK),
    "pending": Badge("Waiting", "hourglass", Severity.MOTION),
    "graceful stop": Badge("Old tasks end", "loader", Severity.MOTION),
    "fencing": Badge("Fencing", "fence", Severity.MOTION),
    "failed": Badge("Failed", "circle-x", Severity.BAD),
    "cancelled": Badge("Superseded", "circle-stop", Severity.REST),
    "superseded": Badge("Superseded", "circle-stop", Severity.REST),
}

_GROUP = {"Dead": Badge("Dead", "circle-x", Severity.UNKNOWN, "It is being deleted.")}
"""States of all kinds of groups: consumer groups and share groups."""
_GROUP_UNKNOWN = Badge("Unknown", "circle-question-mark", Severity.UNKNOWN, "Kafka reports an unknown state.")

_TASK_UNKNOWN = Badge("Unknown", "circle-question-mark", Severity.UNKNOWN)

GROUPS: dict[str, tuple[str, Severity, frozenset[Health]]] = {
    "attention": (
        "Need attention",
        Severity.BAD,
        ATTENTION,
    ),
    "motion": (
        "In motion",
        Severity.MOTION,
        MOTION,
    ),
    "healthy": ("Healthy", Severity.OK, frozenset({Health.HEALTHY})),
    "resting": ("At rest", Severity.REST, frozenset({Health.COMPLETE, Health.PAUSED, Health.STOPPED})),
}
"""The filters of the list: a title, a class, and the healths that they include."""


def look_of(connector: Connector, health: KnownHealth) -> Badge:
    """Return the badge of a connector's health, as far as it is known."""
    doubt = health.doubt(connector)
    badge = HEALTH[health.health_of(connector)]
    return replace(badge, help=f"{doubt}.") if doubt else badge


def task_look(state: str) -> Badge:
    return TASK.get(state, _TASK_UNKNOWN)


def look_of_task(task: Task) -> Badge:
    """Return the badge of a task's state; of one that moves nothing for now, that it tries again."""
    return task_look(RETRYING if (task.retry or task.failed_ms) and task.state == "RUNNING" else task.state)


def stage_look(stage: str) -> Badge:
    return STAGE.get(stage, Badge(stage or "Unknown", "circle-question-mark", Severity.UNKNOWN))


def group_look(state: str, states: Mapping[str, Badge]) -> Badge:
    """Return the badge of a group's state. states: those of this kind of group."""
    return states.get(state) or _GROUP.get(state, _GROUP_UNKNOWN)
