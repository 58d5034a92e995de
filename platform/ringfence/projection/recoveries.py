"""Remembers a task's last failure until it has recovered.

After an automatic restart, a failed task runs for some seconds until it meets the same record or the same refusal
again. Until then nothing is mended: its failure stays visible, and its connector is not healthy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # so that the pure `alerts.failure_episodes` needs no database
    from ringfence.projection.models import Task

QUIET_MS: Final = 30_000
"""A task whose source has answered for this long since the failure has recovered, even if there was nothing to read."""


@dataclass(frozen=True, slots=True)
class LastFailure:
    """generation: in which it failed; record: encrypted, "" for none."""

    generation: int = -1
    at_ms: int = 0
    trace: str = ""
    record: str = ""


NONE: Final = LastFailure()


def has_recovered(task: "Task") -> bool:
    """Return whether the failed task has committed records since, or its source has answered for a while."""
    if task.state != "RUNNING" or (task.live_generation, task.live_attempt) != (task.generation, task.attempt):
        return False
    if task.last_commit_ms > task.failed_ms:
        return True
    return not task.retry and task.last_answer_ms - max(task.since_ms, task.failed_ms) >= QUIET_MS


def forget_failure(task: "Task") -> None:
    task.failed_ms, task.failed_trace, task.failed_record = 0, "", ""
