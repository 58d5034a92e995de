"""The roles that `up` keeps running: each can be launched, watched and stopped."""

import contextlib
import sys
from collections.abc import Mapping
from typing import Protocol

from ringfence.local.data_directory import DataDirectory
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess
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
