"""How many tasks a worker takes, if nobody says so: what the memory carries that it may use; and when it is used up.

What a task takes depends on whether it has a process of its own (`task.isolation`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil

from ringfence.connectors.api import ConfigException

TASK_SLOTS: Final = "task.slots"
"""The worker setting with the number of tasks that a worker takes."""

ISOLATION: Final = "task.isolation"
"""The worker setting: `process`, or `shared` for those whose class allows it (`SourceTask.shares_process`)."""
PROCESS: Final = "process"
SHARED: Final = "shared"

ON_A_CLUSTER: Final = 8
"""Where Spark runs the tasks elsewhere, this machine's memory says nothing, and each slot takes some of a cluster."""

TASK_BYTES: Final = 64 << 20
"""Of a task: a process with a small one has 23 MiB of its own, a busy one about 100 (benchmarks/results/many.md)."""
SHARED_TASK_BYTES: Final = 16 << 20
"""Of a task that shares its process: a small one takes 4 MiB."""
WORKER_BYTES: Final = 700 << 20
"""Of a worker without tasks: its process, Spark's JVM and daemon, plugins, readers."""
PLATFORM_BYTES: Final = 1200 << 20
"""Of what `ringfence up` runs beside its workers: Kafka, web, Valkey."""
SPARE_BYTES: Final = 64 << 20
"""What is left to the machine when a worker starts no more tasks: without it, it would swap, or end processes."""
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
    if not runs_tasks_here(settings):
        return ON_A_CLUSTER
    workers = max(1, workers_here)
    others = PLATFORM_BYTES if workers_here else 0
    room = (memory - others) // workers - WORKER_BYTES
    return max(_LEAST, min(_MOST, room // task_bytes(settings)))


def choose_isolation(settings: Mapping[str, str]) -> str:
    """Return `process` or `shared`. Raises `ConfigException`."""
    isolation = settings.get(ISOLATION, "").strip() or PROCESS
    if isolation not in (PROCESS, SHARED):
        raise ConfigException(f"{ISOLATION}={isolation}: {PROCESS} or {SHARED} is expected")
    if isolation == SHARED and not runs_tasks_here(settings):
        raise ConfigException(
            f"{ISOLATION}={SHARED} works where Spark runs the tasks on the worker's machine: remove it, or spark.master"
        )
    return isolation


def task_bytes(settings: Mapping[str, str]) -> int:
    """Return the memory that is left to each task. Raises `ConfigException`."""
    return SHARED_TASK_BYTES if choose_isolation(settings) == SHARED else TASK_BYTES


def runs_tasks_here(settings: Mapping[str, str]) -> bool:
    """Return whether Spark runs the worker's tasks on this machine."""
    return settings.get("spark.master", "local").startswith("local")


def find_shortage(free: int, starting: int, each: int = TASK_BYTES) -> str:
    """Return why one more task must wait, with the remedy; "" if it need not. free: bytes; starting: the tasks that
    have not yet taken the memory that they will use; each: what a task may use.
    """
    if free - starting * each >= each + SPARE_BYTES:
        return ""
    return (
        f"Waits for memory: {free >> 20} MiB are free for this worker, and {starting} tasks that start beside it need "
        f"some. Stop connectors, start a worker on another machine, add memory, or let this one take fewer tasks "
        f"({TASK_SLOTS})"
    )


def free_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes that are left of `usable_memory`, without the pages of files that can be dropped."""
    left = [psutil.virtual_memory().available]
    for folder, limit in _find_limits(proc, groups):
        used = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes") or 0
        left.append(limit - used + _droppable(folder / "memory.stat"))
    return min(left)


def usable_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes that this process may use: the machine's, or fewer by the limit of a control group."""
    return min([psutil.virtual_memory().total, *(limit for _, limit in _find_limits(proc, groups))])


def _find_limits(proc: Path, groups: Path) -> Iterator[tuple[Path, int]]:
    """Return the folders and limits of the process's control groups, and of those around them, in both versions of
    cgroups.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root, name = (groups, "memory.max") if not controllers else (groups / "memory", "memory.limit_in_bytes")
        inner = root / path.lstrip("/")
        for folder in (inner, *inner.parents):
            if folder.is_relative_to(root) and (limit := _read(folder / name)) is not None:
                yield folder, limit


def _droppable(statistics: Path) -> int:
    try:
        pairs = dict(line.split(" ", 1) for line in statistics.read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(pairs.get("total_inactive_file") or pairs.get("inactive_file") or 0)


def _read(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None  # "max" is none
