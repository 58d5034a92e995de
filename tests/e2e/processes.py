"""The processes behind a worker, found from outside: its Spark driver's JVM, its tasks' Python processes."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence

import psutil

_DAEMON = "ringfence.engine.spark.daemon"


def tree(pid: int) -> list[int]:
    """The process and all its descendants, the process itself first."""
    try:
        root = psutil.Process(pid)
        return [pid, *(child.pid for child in root.children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def jvm(worker: int) -> int:
    """The Spark driver of a worker process."""
    for child in psutil.Process(worker).children():
        if child.name() == "java":
            return child.pid
    raise AssertionError(f"process {worker} has no JVM")


def tasks(worker: int) -> list[int]:
    """The Python processes that a worker's Spark has forked for tasks; idle ones among them wait for another task."""
    found = []
    for child in psutil.Process(worker).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = child.parent()
            if parent is not None and parent.name() != "java" and _DAEMON in parent.cmdline():
                found.append(child.pid)
    return found


def cpu_seconds(pid: int) -> float:
    """Processor time that the process has used."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@contextlib.contextmanager
def frozen(pids: Sequence[int]) -> Iterator[None]:
    """SIGSTOP to each, SIGCONT at the end of the block (also after a failure: nothing may stay frozen)."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def has_daemon(worker: int) -> bool:
    """Whether the worker's Spark has started its Python daemon, from which tasks are forked."""
    for child in psutil.Process(worker).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if _DAEMON in child.cmdline():
                return True
    return False
