"""A server of the tests in a process of its own, which is killed and started again on the same port."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ringfence.local.ports import accepts
from tests.support.waiting import eventually

_MOST_CHARACTERS = 2000


class ServerProcess:
    """It listens at a port of 127.0.0.1. What it prints is added to `log`."""

    def __init__(self, log: Path, port: int) -> None:
        self._log = log
        self._port = port

    def start(
        self, command: Sequence[str], seconds: float, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        """Return when it takes connections; AssertionError, with the end of its log, if it ends or does not."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(command, env=env, cwd=cwd, stdout=output, stderr=subprocess.STDOUT)
        eventually(self._has_begun, seconds, self.tail)
        assert self._process.poll() is None, self.tail()

    def _has_begun(self) -> bool:
        return self._process.poll() is not None or accepts("127.0.0.1", self._port)

    def tail(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-_MOST_CHARACTERS:]

    def stop(self, by: int = signal.SIGKILL) -> None:
        """End it by a signal; return when it has ended."""
        self._process.send_signal(by)
        self._process.wait()
