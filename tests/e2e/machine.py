"""How busy this machine is with other things: a promise in seconds is one about a machine of one's own."""

import time

_WORK_SECONDS = 0.3


def slowness() -> float:
    """How many seconds pass for one second of processor time of a single thread; 1.0 where a core is free."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < _WORK_SECONDS:
        pass
    return max(1.0, (time.monotonic() - began) / (time.thread_time() - used))


def promised(seconds: float) -> float:
    """The promise, or more where other work takes this machine's processors away at this moment."""
    slow = slowness()
    return seconds if slow < 1.3 else seconds * slow * 1.5
