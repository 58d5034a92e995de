"""What a platform's processes say after a failed test: the ends of their logs, and where their threads stand."""

import contextlib
import os
import signal

from tests.e2e.up import Up
from tests.support.waiting import eventually

_MOST_LINES = 150
_SECONDS = 5.0


def worker_logs(up: Up) -> dict[str, str]:
    """The last lines of each worker's log by role, with the stacks of all threads; a frozen process writes none."""
    roles = [f"worker-{number}" for number in range(1, up.workers + 1)]
    for role in roles:
        with contextlib.suppress(AssertionError, OSError):
            _ask_for_stacks(up, role)
    return {role: "\n".join(up.log(role).splitlines()[-_MOST_LINES:]) for role in roles}


def _ask_for_stacks(up: Up, role: str) -> None:
    before = len(up.log(role))
    os.kill(up.pid(role), signal.SIGUSR2)
    eventually(lambda: "Thread 0x" in up.log(role)[before:], _SECONDS, "the stacks", pause=0.1)
