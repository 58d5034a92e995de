"""The roles that `up` keeps running: each can be launched, watched and stopped."""

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ringfence.local.data_directory import Instance
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.valkey import EmbeddedValkey

MIGRATE_SECONDS = 120


class Role(Protocol):
    """One process of this machine. `name` is also used for its pid file and log."""

    name: str

    grace: float
    """Seconds between SIGTERM and SIGKILL."""

    def launch(self) -> None:
        """Start the process; it may not be ready yet. Raises LocalError."""

    def process(self) -> GuardedProcess | None:
        """The newest process; None before the first launch."""


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


class PythonRole:
    """A `ringfence …` command: web, or a worker."""

    def __init__(
        self, name: str, arguments: list[str], instance: Instance, env: Mapping[str, str], grace: float
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


def migrate(instance: Instance, env: Mapping[str, str]) -> None:
    """Migrate the database to this version's tables. Raises LocalError with the last line of the error."""
    log = instance.log("migrate")
    # Django's checks are about this version's code, which its tests have checked; they take as long as the rest.
    command = [sys.executable, "-m", "django", "migrate", "--no-input", "--skip-checks"]
    process = GuardedProcess.start("migrate", command, log=log, env=env, cwd=instance.root)
    if not process.wait(MIGRATE_SECONDS):
        process.kill()
        raise LocalError(f"The database was not prepared within {MIGRATE_SECONDS} s ({last_line(log)}): see {log}")
    if process.poll() != 0:
        raise LocalError(f"The database could not be prepared ({last_line(log)}): see {log}")


def last_line(log: Path) -> str:
    """Return the last line of the log that is not empty."""
    if not log.exists():
        return "it logged nothing"
    lines = [line.strip() for line in log.read_bytes()[-8192:].decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it logged nothing"


def how_it_ended(code: int) -> str:
    """Describe the exit code of a guarded process."""
    if code > 128:
        try:
            return f"was ended by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"ended with code {code}"
