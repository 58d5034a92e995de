"""The roles that `up` keeps running: started in order, restarted when they end, and stopped in reverse order.

The log files of roles that run for months are limited, without a signal to the role. A role's output is appended to its
log, so the file can be copied and truncated while it is open. Lines that are written in between may be lost.
"""

import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ringfence.fencing.backoff import Backoff
from ringfence.local.data_directory import DataDirectory
from ringfence.local.errors import LocalError, explain_os_error
from ringfence.local.guarded_process import GuardedProcess, wait_until
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.valkey import EmbeddedValkey


class Role(Protocol):
    """One process of this machine. `name` is also used for its pid file and log."""

    name: str

    grace: float
    """Seconds between SIGTERM and SIGKILL."""

    def launch(self) -> None:
        """Start the process; it may not be ready yet. Raises LocalError."""

    def process(self) -> GuardedProcess | None:
        """The newest process; None before the first launch."""

    def settle(self) -> None:
        """Do, after an orderly end, what makes the next start quicker. It may not raise."""


class KafkaRole:
    name = "kafka"
    grace = 20.0

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.kafka = kafka
        self._launched = False

    def launch(self) -> None:
        self.kafka.launch()
        self._launched = True

    def process(self) -> GuardedProcess | None:
        return self.kafka.process if self._launched else None

    def settle(self) -> None:
        with contextlib.suppress(LocalError):  # the next start does it, and reports what is wrong
            self.kafka.fence_ended()


class ValkeyRole:
    name = "redis"
    grace = 5.0

    def __init__(self, valkey: EmbeddedValkey) -> None:
        self.valkey = valkey
        self._launched = False

    def launch(self) -> None:
        self.valkey.start()
        self._launched = True

    def process(self) -> GuardedProcess | None:
        return self.valkey.process if self._launched else None

    def settle(self) -> None:
        pass


class PythonRole:
    """A `ringfence …` command: web, or a worker."""

    def __init__(
        self, name: str, arguments: list[str], instance: DataDirectory, env: Mapping[str, str], grace: float
    ) -> None:
        self.name = name
        self.grace = grace
        self._arguments = arguments
        self._instance = instance
        self._env = env
        self._process: GuardedProcess | None = None

    def launch(self) -> None:
        self._process = GuardedProcess.start(
            self.name,
            [sys.executable, "-m", "ringfence.cli", *self._arguments],
            log=self._instance.log(self.name),
            env=self._env,
            cwd=self._instance.root,
            pid_file=self._instance.pid_file(self.name),
        )

    def process(self) -> GuardedProcess | None:
        return self._process

    def settle(self) -> None:
        pass


MAX_BYTES: Final = 64 * 1024 * 1024
KEPT: Final = 3


def rotate(log: Path, max_bytes: int = MAX_BYTES, count: int = KEPT) -> bool:
    """Move the content of a log of at least `max_bytes` to LOG.1, and LOG.1 to LOG.2. Returns whether it was that
    large.

    The oldest of the `count` files is deleted.
    """
    try:
        if log.stat().st_size < max_bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(count - 1, 0, -1):
        older = _backup_path(log, number)
        if older.exists():
            older.replace(_backup_path(log, number + 1))
    shutil.copyfile(log, _backup_path(log, 1))
    with log.open("r+b") as file:
        file.truncate(0)
    return True


def _backup_path(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")


BACKOFF = Backoff(0.2, 30)
# A role that has run for this long has recovered: its failures are counted from 0 again.
CALM_SECONDS = 60.0
ENDS_WHILE_STARTING = 3
_LOOK_SECONDS = 0.1
_ROTATE_SECONDS = 30.0

Say = Callable[[str], None]


def say(line: str, end: str = "\n") -> None:
    """Print a line to the terminal, or to a file on a disk that may be full."""
    with contextlib.suppress(OSError):
        print(line, end=end, flush=True)


@contextlib.contextmanager
def stage(title: str, since: float | None = None) -> Iterator[None]:
    """Print `title …` and, after the block, the seconds it took (from `since`, if given)."""
    begin = time.monotonic() if since is None else since
    say(f"{title} … ", end="")
    try:
        yield
    except BaseException:
        say("")
        raise
    say(f"{time.monotonic() - begin:.1f} s")


@dataclass(slots=True)
class _RoleState:
    role: Role
    launched_at: float
    ends: int = 0
    failures: int = 0  # ends, and failed starts
    restart_at: float | None = None


class Supervisor:
    """Keeps roles running. Only one thread, the main one, may use it."""

    def __init__(self) -> None:
        self._watched: list[_RoleState] = []
        self._must_end_now = False
        self._rotate_at = 0.0

    def launch(self, role: Role, *, ends_last: bool = False) -> None:
        """Start a role and watch it. Raises LocalError, also later from `tend`, if it cannot be started at all.

        ends_last: others that were launched before need it until their end.
        """
        # Watched before it is launched, so that an interrupt in between stops it, too.
        self._watched.insert(0 if ends_last else len(self._watched), _RoleState(role, time.monotonic()))
        role.launch()

    def tend(self) -> None:
        """Restart roles that have ended: at once, and after pauses that grow each time if they end again. Returns at
        once; call it often.
        """
        now = time.monotonic()
        if now >= self._rotate_at:
            self._rotate_at = now + _ROTATE_SECONDS
            self._rotate_logs()
        for watched in self._watched:
            if watched.restart_at is None:
                self._notice_end(watched, now)
            if watched.restart_at is not None and now >= watched.restart_at:
                self._relaunch(watched, now)

    def _rotate_logs(self) -> None:
        for watched in self._watched:
            if process := watched.role.process():
                try:
                    rotate(process.log)
                except OSError as error:
                    say(f"{process.log} cannot be rotated: {explain_os_error(error)}")

    def tend_until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Call `tend` until `condition` is true. Returns whether it became true within `timeout` seconds.

        Raises LocalError if a role ends again and again, since waiting would not help.
        """

        def look() -> bool:
            self.tend()
            hopeless = next((w for w in self._watched if w.ends >= ENDS_WHILE_STARTING), None)
            if hopeless is not None:
                process = hopeless.role.process()
                words = f" ({process.last_log_line()}): see {process.log}" if process else ""
                raise LocalError(f"{hopeless.role.name} does not stay up{words}")
            return condition()

        return wait_until(look, timeout, _LOOK_SECONDS)

    def end_now(self) -> None:
        """Make `stop` wait for nothing. For the signal handler of a second Ctrl-C."""
        self._must_end_now = True

    def stop(self) -> None:
        """Stop all roles, the last one first, with SIGKILL after their grace time."""
        while self._watched:
            # Roles of one kind stop together: three workers need one grace time, not three.
            kind = _kind(self._watched[-1].role)
            together = [watched.role for watched in self._watched if _kind(watched.role) == kind]
            self._watched = [watched for watched in self._watched if _kind(watched.role) != kind]
            self._stop_together(together)
            for role in together:
                if not self._must_end_now:
                    role.settle()

    def _stop_together(self, roles: list[Role]) -> None:
        processes = [process for role in roles if (process := role.process()) and process.poll() is None]
        if not processes:
            return
        with stage("stopping " + ", ".join(process.name for process in processes)):
            for process in processes:
                process.terminate()
            wait_until(
                lambda: self._must_end_now or all(process.poll() is not None for process in processes),
                max(role.grace for role in roles),
            )
            for process in processes:
                process.kill()

    def _notice_end(self, watched: _RoleState, now: float) -> None:
        process = watched.role.process()
        code = process.poll() if process else None
        if code is None:
            return
        if now - watched.launched_at > CALM_SECONDS:
            watched.ends = watched.failures = 0
        watched.ends += 1
        watched.failures += 1
        pause = BACKOFF.pause(watched.failures - 1)
        when = f" in {pause:.1f} s" if pause else ""
        say(f"{watched.role.name} {_how_it_ended(code)}; it is started again{when}")
        watched.restart_at = now + pause

    def _relaunch(self, watched: _RoleState, now: float) -> None:
        try:
            watched.role.launch()
        except (LocalError, OSError) as error:
            reason = explain_os_error(error) if isinstance(error, OSError) else error
            watched.failures += 1
            pause = BACKOFF.pause(watched.failures - 1)
            say(f"{watched.role.name}: {reason} (tried again in {pause:.1f} s)")
            watched.restart_at = now + pause
        else:
            watched.launched_at = now
            watched.restart_at = None


def _kind(role: Role) -> str:
    return role.name.split("-")[0]


def _how_it_ended(code: int) -> str:
    """Describe the exit code of a guarded process."""
    if code > 128:
        try:
            return f"was ended by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"ended with code {code}"
