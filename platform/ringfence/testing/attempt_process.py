"""One attempt of a task as an executor runs it, in a separate process: `python -m ringfence.testing.attempt_process`.

The specification is read from standard input, since it contains the connector's secrets; the outcome is written to
standard output. SIGTERM is blocked when the process starts. Standard input stays open: it ends with the parent, and
then this process ends, too.
"""

import fcntl
import os
import select
import signal
import sys
import threading

from ringfence.crashes import enable_crash_reports
from ringfence.engine.spark.task_process import run_task

_AGAIN_SECONDS = 0.2


def accept_stops() -> None:
    """Accept SIGTERM. A request to stop that arrives before the task's run has begun is repeated until the run handles
    it.
    """

    def repeat(number: int, _frame: object) -> None:
        threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number)).start()

    signal.signal(signal.SIGTERM, repeat)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def end_with_parent() -> None:
    """End with the parent. Call it after the specification is read: the only possible input is then the
    end of input.
    """
    # Done by the kernel, not by a thread of ours: it must also end an attempt that is frozen, or whose connector holds
    # the interpreter.
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    if sys.platform == "linux":
        fcntl.fcntl(0, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # the parent has already ended
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    enable_crash_reports()
    accept_stops()
    specification = sys.stdin.readline()
    end_with_parent()
    print(run_task(specification), flush=True)
