"""How many task configurations a connector may make, and how large they may be. Pure.

All connector instances of a leader share a process, so the number is cut before `task_configs` builds a configuration
for each task. A connector from an earlier version, or with a value from a config provider, may ask for more.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.connectors.common_settings import TASKS_MAX
from ringfence.connectors.sdk.worker_limits import TASKS_MAX_LIMIT, current
from ringfence.engine.plugins.errors import PluginError

MAX_TASK_BYTES: Final = 700_000
"""Of one task's configuration, which must fit into a record, and is a third larger if it is encrypted."""
MAX_TOTAL_BYTES: Final = 32 * 1024 * 1024


def cut(name: str, tasks: int) -> tuple[int, str]:
    """Return how many tasks the connector may make, and a warning for users if that is less than it asks for."""
    most = current().tasks
    if tasks <= most:
        return tasks, ""
    return most, (
        f"{TASKS_MAX} of connector {name} is {tasks}, and the workers allow {most}: it runs with {most} tasks at most. "
        f"Lower {TASKS_MAX}, or have an administrator raise {TASKS_MAX_LIMIT} in the workers' settings"
    )


def check(name: str, configs: Sequence[Mapping[str, str]]) -> None:
    """Raise `PluginError` if there are more configurations than any connector may have, or larger ones."""
    most = current().tasks
    if len(configs) > most:
        raise PluginError(
            f"The connector {name} has generated {len(configs)} tasks, and the workers allow {most}. Nothing was "
            f"started. Lower {TASKS_MAX}, or have an administrator raise {TASKS_MAX_LIMIT} in the workers' settings"
        )
    total = 0
    for number, config in enumerate(configs):
        size = sum(len(key.encode()) + len(value.encode()) for key, value in config.items())
        if size > MAX_TASK_BYTES:
            raise PluginError(
                f"The configuration that connector {name} has generated for task {number} has {size:,} bytes, and may "
                f"have {MAX_TASK_BYTES:,} at most. Nothing was started. Raise {TASKS_MAX}, so that each task has less"
            )
        total += size
        if total > MAX_TOTAL_BYTES:
            raise PluginError(
                f"The configurations that connector {name} has generated for its tasks have more than "
                f"{MAX_TOTAL_BYTES:,} bytes. Nothing was started. Lower {TASKS_MAX}, or use several connectors"
            )
