"""How busy this machine is with other things: a promise in seconds is one about a machine of one's own."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_WORK_SECONDS = 0.3
_WATCH_WORK_SECONDS, _WATCH_PAUSE_SECONDS = 0.05, 0.5


def slowness() -> float:
    """How many seconds pass for one second of processor time of a single thread; 1.0 where a core is free."""
    return _slowness(*_work(_WORK_SECONDS))


def _work(seconds: float) -> tuple[float, float]:
    """Use so much processor time. The seconds that passed, and the processor time."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < seconds:
        pass
    return time.monotonic() - began, time.thread_time() - used


def _slowness(passed: float, used: float) -> float:
    return max(1.0, passed / used)


def promised(seconds: float) -> float:
    """The promise, or more where other work takes this machine's processors away at this moment."""
    return _prolonged(seconds, slowness())


def _prolonged(seconds: float, slow: float) -> float:
    return seconds if slow < 1.3 else seconds * slow * 1.5


@contextmanager
def watched() -> Iterator[Callable[[float], float]]:
    """`promised` for what happens in the block: it counts how slow the machine was before, during and after it.

    Ask for the promise behind the block.
    """
    before, over = slowness(), threading.Event()
    passed, used, slowest = 0.0, 0.0, before

    def watch() -> None:
        nonlocal passed, used
        while not over.wait(_WATCH_PAUSE_SECONDS):
            more, work = _work(_WATCH_WORK_SECONDS)
            passed, used = passed + more, used + work

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda seconds: _prolonged(seconds, slowest)
    finally:
        over.set()
        watcher.join()
    slowest = max(before, slowness(), _slowness(passed, used) if used else 1.0)
