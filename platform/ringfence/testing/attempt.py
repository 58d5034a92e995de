"""One attempt of a task in the real runtime, in a process that can be killed, frozen and stopped."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.local.errors import LocalError

_STACKS_SECONDS = 1.0
_MOST_LOG = 20_000


class AttemptProcess:
    """Starts at once. `close` ends the process; it also ends with this process, even if that is killed."""

    def __init__(self, spec: TaskSpec) -> None:
        self._outcome: dict[str, Any] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the attempt
        # The child inherits it: a request to stop is pending until the child can handle it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ringfence.testing.attempt_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                # Find a connector that is not installed where this process has found it.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.stdin is not None
        self._lifeline = self._process.stdin
        self._process.stdin = None  # otherwise `communicate` would close it
        self._lifeline.write(spec.dumps() + "\n")
        self._lifeline.flush()

    @property
    def log(self) -> str:
        """Return what it has written to standard error so far."""
        # The process shares the file's position and writes there: do not move it.
        errors = self._errors.fileno()
        return os.pread(errors, os.fstat(errors).st_size, 0).decode(errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL; return when the process is gone."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Send SIGSTOP, like a long pause of the machine."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def read_stacks(self) -> str:
        """Have it write the stacks of its threads to its log, and return the log's end."""
        self._process.send_signal(signal.SIGUSR2)
        time.sleep(_STACKS_SECONDS)
        return self.log[-_MOST_LOG:]

    def request_stop(self) -> None:
        """Send SIGTERM and return at once."""
        self._process.send_signal(signal.SIGTERM)

    def stop(self, seconds: float = 60) -> dict[str, Any]:
        """Send SIGTERM, like a worker that stops: the open transaction is committed. See `outcome`."""
        self.request_stop()
        return self.outcome(seconds)

    def outcome(self, seconds: float = 60) -> dict[str, Any]:
        """Wait for its end, and return `{"reason", "trace", "left_open"}`.

        Raises `subprocess.TimeoutExpired`, with the stacks of its threads, and LocalError if it has ended without an
        outcome.
        """
        if self._outcome is None:
            try:
                out, _ = self._process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as error:
                error.add_note(self.read_stacks())
                raise
            if not out:
                raise LocalError(f"The task's process ended with code {self._process.returncode}: {self.log[-2000:]}")
            self._outcome = json.loads(out)
        return self._outcome

    def close(self) -> None:
        if self.running:
            self._process.kill()
            self._process.wait()
        for pipe in (self._lifeline, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()
