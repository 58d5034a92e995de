"""A task's share of the snapshot: its number and the number of tasks, in its configuration."""

from collections.abc import Mapping
from typing import Final

_SHARE: Final = "postgres.snapshot.share"
"""In a task's configuration: its number and the number of tasks, `0/4`."""


def share_config(number: int, tasks: int) -> dict[str, str]:
    """Return the setting with a task's share of the snapshot."""
    return {_SHARE: f"{number}/{tasks}"}


def share_of(config: Mapping[str, str]) -> tuple[int, int]:
    """Return the task's number and the number of tasks."""
    number, tasks = config.get(_SHARE, "0/1").split("/")
    return int(number), int(tasks)
