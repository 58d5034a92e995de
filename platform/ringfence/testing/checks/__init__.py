"""The checks of the compatibility suite. To add one, add a module here and a line in `CHECKS`."""

from collections.abc import Callable
from dataclasses import dataclass

from ringfence.testing.checks.kills import survives_a_kill, survives_kills
from ringfence.testing.checks.reset import starts_again_without_offsets
from ringfence.testing.checks.resume import resumes_after_each_record
from ringfence.testing.checks.settings import describes_itself
from ringfence.testing.checks.stop import stops_and_continues
from ringfence.testing.checks.tasks import survives_other_task_counts
from ringfence.testing.checks.trial import Trial
from ringfence.testing.checks.values import delivers_rare_values
from ringfence.testing.checks.zombies import shuts_zombies_out

__all__ = ["CHECKS", "SUITE_VERSION", "Check", "Trial", "survives_a_kill"]

SUITE_VERSION = 2
"""Increase it when a check is added or becomes stricter: reports contain it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `run` raises `CheckFailed` or `CheckSkipped`, and any exception of the connector."""

    name: str
    about: str
    run: Callable[[Trial], None]

    def __str__(self) -> str:
        return self.name


CHECKS = (
    Check("settings", "Settings are documented, task configurations stable, exactly once is claimed", describes_itself),
    Check("resume", "A task that starts at any source offset delivers exactly the rest", resumes_after_each_record),
    Check("values", "Rare values arrive as they are, or refuse their row only", delivers_rare_values),
    Check("kills", "Tasks are killed again and again: each record once", survives_kills),
    Check("zombies", "Frozen tasks wake up after others have taken over: each record once", shuts_zombies_out),
    Check("stop", "Tasks stop in time, and others continue: each record once", stops_and_continues),
    Check("reset", "Without source offsets, everything is read again", starts_again_without_offsets),
    Check("tasks", "The number of tasks changes while they run: each record once", survives_other_task_counts),
)
