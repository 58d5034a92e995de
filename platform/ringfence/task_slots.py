"""How many tasks a worker takes, if nobody says so: what the memory carries that it may use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from ringfence.connectors.api import ConfigException

TASK_SLOTS: Final = "task.slots"
"""The worker setting with the number of tasks that a worker takes."""

ON_A_CLUSTER: Final = 8
"""Where Spark runs the tasks elsewhere, this machine's memory says nothing, and each slot takes some of a cluster."""

TASK_BYTES: Final = 64 << 20
"""Of a task: a process with a small one has 18 MiB of its own, a busy one about 100 (benchmarks/results/many.md)."""
WORKER_BYTES: Final = 700 << 20
"""Of a worker without tasks: its process, Spark's JVM and daemon, plugins, readers."""
PLATFORM_BYTES: Final = 1200 << 20
"""Of what `ringfence up` runs beside its workers: Kafka, web, Valkey."""
_LEAST: Final = 4
_MOST: Final = 1000
"""More than were ever tried on one worker."""


def slots_of(settings: Mapping[str, str], memory: int, workers_here: int = 0) -> int:
    """Return the slots by the worker's settings, else by the memory. Raises `ConfigException`.

    memory: the bytes that the worker may use. workers_here: how many workers of `ringfence up` share them, with all
    else that it runs; 0 for a worker that has them to itself.
    """
    if text := settings.get(TASK_SLOTS, "").strip():
        if not (text.isascii() and text.isdecimal() and int(text[:10]) > 0):
            raise ConfigException(f"{TASK_SLOTS}={text}: an integer of at least 1 is expected")
        return int(text[:10])
    if not settings.get("spark.master", "local").startswith("local"):
        return ON_A_CLUSTER
    workers = max(1, workers_here)
    others = PLATFORM_BYTES if workers_here else 0
    room = (memory - others) // workers - WORKER_BYTES
    return max(_LEAST, min(_MOST, room // TASK_BYTES))


def usable_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes that this process may use: the machine's, or fewer by the limit of a control group."""
    return min([psutil.virtual_memory().total, *_limits(proc, groups)])


def _limits(proc: Path, groups: Path) -> list[int]:
    """Return the limits of the process's control groups and of those around them, in both versions of cgroups."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root, name = (groups, "memory.max") if not controllers else (groups / "memory", "memory.limit_in_bytes")
        inner = root / path.lstrip("/")
        for folder in (inner, *inner.parents):
            if folder.is_relative_to(root) and (limit := _read(folder / name)) is not None:
                limits.append(limit)
    return limits


def _read(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None  # "max" is none
