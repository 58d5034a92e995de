"""One attempt of a task as an executor runs it, in a process of its own: `python -m ringfence.testing.attempt_process`.

The specification comes on standard input, since it holds the connector's secrets; the outcome goes to standard output.
SIGTERM is blocked when the process starts.
"""

import os
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


if __name__ == "__main__":
    accept_stops()
    print(run_task(sys.stdin.readline()), flush=True)
