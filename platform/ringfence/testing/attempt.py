"""One attempt of a task under the real kernel, in a process that may be killed, frozen and stopped."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any

from ringfence.fencing.task.spec import TaskSpec
from ringfence.local.errors import LocalError


class AttemptProcess:
    """Starts at once. `close` it: nothing of it stays. It also ends with this process, however this one ends."""

    def __init__(self, spec: TaskSpec) -> None:
        self._outcome: dict[str, Any] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the attempt
        # The child inherits it: a request to stop waits until there is somebody who understands it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ringfence.testing.attempt_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                # A connector that is not installed is found where this process has found it.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.stdin is not None
        self._lifeline = self._process.stdin
        self._process.stdin = None  # `communicate` would close it
        self._lifeline.write(spec.dumps() + "\n")
        self._lifeline.flush()

    @property
    def log(self) -> str:
        """What it has written to standard error so far."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP, as a long pause of the machine would do it."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def request_stop(self) -> None:
        """SIGTERM: returns at once."""
        self._process.send_signal(signal.SIGTERM)

    def stop(self, seconds: float = 60) -> dict[str, Any]:
        """SIGTERM, as a worker that stops does it: the open transaction is committed. See `outcome`."""
        self.request_stop()
        return self.outcome(seconds)

    def outcome(self, seconds: float = 60) -> dict[str, Any]:
        """`{"reason", "trace", "left_open"}` when it has ended.

        Raises `subprocess.TimeoutExpired`, and LocalError for a process that ended without a word.
        """
        if self._outcome is None:
            out, _ = self._process.communicate(timeout=seconds)
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
