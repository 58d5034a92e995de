"""CPU and memory of a worker: of its process and of all that it started, as Linux accounts for them."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.rest import BenchmarkError

_TICK = os.sysconf("SC_CLK_TCK")
_LIST_EVERY_S = 0.5
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes. PSS counts a page that n processes share as 1/n in each, so it can be added up."""

    rss: int = 0
    pss: int = 0

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(self.rss + other.rss, self.pss + other.pss)


class Tree:
    """A process and its descendants. The CPU time of ended processes is included.

    more(): returns other processes that work for it, which have lost their parents.
    """

    def __init__(self, pid: int, more: Callable[[], Iterable[psutil.Process]] = tuple) -> None:
        self._root = psutil.Process(pid)
        self._more = more
        self._members: dict[int, psutil.Process] = {}
        self._cpu: dict[int, float] = {}
        self._listed_at = 0.0

    def cpu_seconds(self) -> float:
        """Return user and system time of all of them, each since its start."""
        now = time.monotonic()
        if now - self._listed_at > _LIST_EVERY_S:
            self._listed_at = now
            # A root that has ended (the bare loop's, at its end) keeps its last members.
            with contextlib.suppress(psutil.NoSuchProcess):
                members = (self._root, *self._root.children(recursive=True), *self._more())
                self._members = {member.pid: member for member in members}
        for pid in self._members:
            self._cpu[pid] = _cpu(pid) or self._cpu.get(pid, 0.0)
        return sum(self._cpu.values())

    def memory(self) -> Memory:
        """Return the memory of all of them together."""
        return sum((memory_of(pid) for pid in self._members), Memory())

    def task_processes(self) -> list[int]:
        """Return the Python processes that Spark's daemon forked: each runs one task (or waits for the next)."""
        return [
            pid
            for pid, process in self._members.items()
            if _is_daemon(process) and process.ppid() in self._members and _is_daemon(self._members[process.ppid()])
        ]


def prefer(pid: int, nice: int) -> None:
    """Prioritise the session of `pid` before (negative, needs root) or after others on a shared machine."""
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(nice))  # with autogroups, a process's nice value only applies within its session
    else:
        os.setpriority(os.PRIO_PROCESS, pid, nice)


def memory_of(pid: int) -> Memory:
    """Return the memory of one process; zero if it has ended."""
    sizes = {"Rss": 0, "Pss": 0}
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in sizes:
                sizes[name] = int(rest.split()[0]) * 1024
    except OSError:
        pass
    return Memory(sizes["Rss"], sizes["Pss"])


def find_busiest(pids: Iterable[int], seconds: float) -> int:
    """Return the process that uses most CPU time in so many seconds: of tasks' processes one that runs a task, since
    the others wait for one. Raises `BenchmarkError` if none is there.
    """
    before = {pid: cpu for pid in pids if (cpu := _cpu(pid)) is not None}
    time.sleep(seconds)
    used = {pid: cpu - earlier for pid, earlier in before.items() if (cpu := _cpu(pid)) is not None}
    if not used:
        raise BenchmarkError("the worker has no task's process")
    return max(used, key=lambda pid: used[pid])


def _cpu(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICK


def _is_daemon(process: psutil.Process) -> bool:
    try:
        return any("spark.daemon" in part for part in process.cmdline())
    except psutil.NoSuchProcess:
        return False
