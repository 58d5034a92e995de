"""A guarded child process: it ends when its parent ends, together with its own children."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from ringfence.local.errors import LocalError

_GUARD = Path(__file__).with_name("child_guard.py")
_POLL_SECONDS = 0.02


class GuardedProcess:
    """A started command. `pid` is the command's own id (also its process group), not that of its guard."""

    def __init__(
        self, name: str, popen: subprocess.Popen[bytes], pid: int, *, log: Path, pid_file: Path | None
    ) -> None:
        self.name = name
        self.pid = pid
        self.log = log
        self._popen = popen
        self._pid_file = pid_file

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str | os.PathLike[str]],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        pid_file: Path | None = None,
    ) -> "GuardedProcess":
        """Start `command`; append its output to `log`, and write its process id to `pid_file`.

        Raises LocalError if the command cannot be executed.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), *(os.fspath(part) for part in command)],
                stdin=subprocess.PIPE,  # stays open until this process ends; never written to
                stdout=subprocess.PIPE,
                stderr=output,
                env=env,
                cwd=cwd,
                # a Ctrl-C in the terminal is only for this process, which stops the others in order
                start_new_session=True,
            )
        assert popen.stdout is not None
        first = popen.stdout.readline().decode().strip()
        popen.stdout.close()
        if not first.isdigit():
            popen.wait()
            raise LocalError(f"{name} could not be started ({first.removeprefix('! ') or 'no answer'}): see {log}")
        if pid_file is not None:
            pid_file.parent.mkdir(parents=True, exist_ok=True)
            scratch = pid_file.with_suffix(".tmp")
            scratch.write_text(f"{first}\n")
            scratch.replace(pid_file)
        return cls(name, popen, int(first), log=log, pid_file=pid_file)

    def poll(self) -> int | None:
        """Return the exit code (128 + n after signal n) once the command and all that it started are
        gone, else None.
        """
        code = self._popen.poll()
        if code is not None and self._pid_file is not None:
            if _read_pid(self._pid_file) == self.pid:
                self._pid_file.unlink(missing_ok=True)
            self._pid_file = None
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the command itself. Does nothing if it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # ended, and the guard is about to report it
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM to the command, and return at once."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the command; return when it and all that it started are gone."""
        self.signal(signal.SIGKILL)
        self._popen.wait()
        self._close()

    def wait(self, timeout: float) -> bool:
        """Return whether it ended within `timeout` seconds."""
        try:
            self._popen.wait(max(timeout, 0))
        except subprocess.TimeoutExpired:
            return False
        self._close()
        return True

    def stop(self, grace: float) -> bool:
        """Send SIGTERM, and SIGKILL after `grace` seconds. Returns whether it ended without SIGKILL."""
        self.terminate()
        if self.wait(grace):
            return True
        self.kill()
        return False

    def last_log_line(self) -> str:
        """Return the last line of its log that is not empty."""
        end = self.log.read_bytes()[-8192:].decode(errors="replace") if self.log.exists() else ""
        lines = [line.strip() for line in end.splitlines() if line.strip()]
        return lines[-1] if lines else "it logged nothing"

    def _close(self) -> None:
        self.poll()
        if self._popen.stdin is not None:
            self._popen.stdin.close()


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def wait_until(condition: Callable[[], bool], timeout: float, pause: float = _POLL_SECONDS) -> bool:
    """Return whether `condition` became true within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
    return True


def process_exists(pid: int) -> bool:
    """Return whether a process with this id lives. A zombie, which holds no resources, does not count."""
    try:
        return pid > 0 and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
