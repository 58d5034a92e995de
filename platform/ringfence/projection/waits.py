"""What a task that does not run waits for, in words."""

from collections.abc import Mapping
from typing import Final

from ringfence.projection.models import Task

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
