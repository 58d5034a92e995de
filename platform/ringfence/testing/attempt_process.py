"""One attempt of a task as an executor runs it, in a process of its own: `python -m ringfence.testing.attempt_process`.

The specification comes on standard input, since it holds the connector's secrets; the outcome goes to standard output.
SIGTERM is blocked when the process starts. Standard input stays open: its end is the parent's, and this process's, too.
"""

import fcntl
import os
import select
import signal
import sys
import threading

from ringfence.engine.spark.task_process import run_task

_AGAIN_SECONDS = 0.2


def accept_stops() -> None:
    """A request to stop that comes before the task's run has begun is repeated until the run takes it."""

    def repeat(number: int, _frame: object) -> None:
        threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number)).start()

    signal.signal(signal.SIGTERM, repeat)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def end_with_parent() -> None:
    """Call it when the specification is read: whatever comes next on standard input can only be its end."""
    # By the kernel, not by a thread of ours: it must also end an attempt that is frozen, or whose connector holds the
    # interpreter.
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    if sys.platform == "linux":
        fcntl.fcntl(0, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # the parent has ended before
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    accept_stops()
    specification = sys.stdin.readline()
    end_with_parent()
    print(run_task(specification), flush=True)
