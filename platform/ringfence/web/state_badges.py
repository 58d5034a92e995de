"""How states look: an icon, a word and one of six classes; never a colour alone."""

from dataclasses import dataclass
from enum import StrEnum

from ringfence.projection.health import Health
from ringfence.projection.models import Connector


class Tone(StrEnum):
    """The six classes of the stylesheet."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    MOTION = "motion"
    REST = "rest"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Look:
    """A state for people."""

    word: str
    icon: str
    tone: Tone
    help: str = ""


HEALTH = {
    Health.HEALTHY: Look("Healthy", "circle-check", Tone.OK, "Running, and so are all of its tasks."),
    Health.DEGRADED: Look("Degraded", "triangle-alert", Tone.WARN, "Some of its tasks have failed."),
    Health.UNHEALTHY: Look("Unhealthy", "circle-x", Tone.BAD, "It has failed, or runs without a working task."),
    Health.STALLED: Look("Stalled", "hourglass", Tone.WARN, "It runs, but moves nothing for longer than usual."),
    Health.FENCING: Look("Fencing", "fence", Tone.MOTION, "Older tasks are shut out before the new ones may write."),
    Health.RESTARTING: Look("Restarting", "rotate-cw", Tone.MOTION, "Tasks are being started again."),
    Health.STARTING: Look("Starting", "loader", Tone.MOTION, "Tasks are about to run."),
    Health.PAUSING: Look("Pausing", "loader", Tone.MOTION, "Tasks commit what they have and then rest."),
    Health.STOPPING: Look("Stopping", "loader", Tone.MOTION, "Tasks commit what they have and then end."),
    Health.PAUSED: Look("Paused", "circle-pause", Tone.REST, "Tasks are kept ready and read nothing."),
    Health.STOPPED: Look("Stopped", "circle-stop", Tone.REST, "No tasks exist; offsets may be changed."),
    Health.UNKNOWN: Look("Unknown", "circle-question-mark", Tone.UNKNOWN, "It reports a state that is not known."),
}

TASK = {
    "RUNNING": Look("Running", "circle-check", Tone.OK),
    "PAUSED": Look("Paused", "circle-pause", Tone.REST),
    "STOPPED": Look("Stopped", "circle-stop", Tone.REST),
    "FAILED": Look("Failed", "circle-x", Tone.BAD),
    "UNASSIGNED": Look("Waiting", "hourglass", Tone.MOTION),
    "RESTARTING": Look("Restarting", "rotate-cw", Tone.MOTION),
    "": Look("Starting", "loader", Tone.MOTION),
}

STAGE = {
    "done": Look("Done", "shield-check", Tone.OK),
    "pending": Look("Waiting", "hourglass", Tone.MOTION),
    "graceful stop": Look("Old tasks end", "loader", Tone.MOTION),
    "fencing": Look("Fencing", "fence", Tone.MOTION),
    "failed": Look("Failed", "circle-x", Tone.BAD),
    "cancelled": Look("Superseded", "circle-stop", Tone.REST),
    "superseded": Look("Superseded", "circle-stop", Tone.REST),
}

_TASK_UNKNOWN = Look("Unknown", "circle-question-mark", Tone.UNKNOWN)

GROUPS: dict[str, tuple[str, Tone, frozenset[Health]]] = {
    "attention": (
        "Need attention",
        Tone.BAD,
        frozenset({Health.UNHEALTHY, Health.DEGRADED, Health.STALLED, Health.UNKNOWN}),
    ),
    "motion": (
        "In motion",
        Tone.MOTION,
        frozenset({Health.FENCING, Health.RESTARTING, Health.STARTING, Health.PAUSING, Health.STOPPING}),
    ),
    "healthy": ("Healthy", Tone.OK, frozenset({Health.HEALTHY})),
    "resting": ("At rest", Tone.REST, frozenset({Health.PAUSED, Health.STOPPED})),
}
"""The filters of the list: a word, a class, and the healths they hold."""


def look_of(connector: Connector) -> Look:
    try:
        return HEALTH[Health(connector.health)]
    except ValueError:
        return HEALTH[Health.UNKNOWN]


def task_look(state: str) -> Look:
    return TASK.get(state, _TASK_UNKNOWN)


def stage_look(stage: str) -> Look:
    return STAGE.get(stage, Look(stage or "Unknown", "circle-question-mark", Tone.UNKNOWN))
