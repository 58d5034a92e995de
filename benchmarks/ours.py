"""Ringfence as `ringfence up` runs it: web and workers, on an existing broker."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.rest import BenchmarkError, Rest
from ringfence.local.guarded_process import GuardedProcess, wait_until
from ringfence.local.ports import free_port

READY_SECONDS = 240.0
_TOPICS = ("CONFIG_STORAGE", "OFFSET_STORAGE", "STATUS_STORAGE", "EVENTS_STORAGE")


class RingfenceWorker:
    """`ringfence up` with default settings, except for Kafka's address."""

    def __init__(
        self,
        root: Path,
        bootstrap: str,
        workers: int = 1,
        slots: int | None = None,
        settings: Mapping[str, str] | None = None,
        checkout: Path | None = None,
    ) -> None:
        """slots: tasks per worker; None for the default of `ringfence up`. settings: of the worker, as environment
        variables. checkout: another one, whose code runs; with a group and topics of its own.
        """
        self._root = root
        self._bootstrap = bootstrap
        self._workers = workers
        self._slots = slots
        self._settings = dict(settings or {})
        if checkout is not None:
            names = ("CONFIG_STORAGE_TOPIC", "OFFSET_STORAGE_TOPIC", "STATUS_STORAGE_TOPIC", "EVENTS_STORAGE_TOPIC")
            self._settings |= {f"CONNECT_{each}": f"beside-{each.lower().replace('_', '-')}" for each in names}
            self._settings |= {"CONNECT_GROUP_ID": "beside", "PYTHONPATH": str(checkout / "platform")}
        self._process: GuardedProcess | None = None
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process id of the first worker."""
        return self.pid_of("worker-1")

    def pid_of(self, worker: str) -> int:
        """Return a worker's process id. It is read each time, since `up` restarts a worker that ended."""
        return int((self._root / "run" / f"{worker}.pid").read_text())

    def start(self) -> None:
        # Only the benchmark's own variables: one from the caller's shell would change the measurement.
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("CONNECT_", "RINGFENCE_"))}
        one_broker = {f"CONNECT_{topic}_REPLICATION_FACTOR": "1" for topic in _TOPICS}
        env = {**clean, **one_broker, "CONNECT_BOOTSTRAP_SERVERS": self._bootstrap, **self._settings}
        command = [sys.executable, "-m", "ringfence.cli", "up"]
        command += ["--data", str(self._root), "--http", f"127.0.0.1:{self._port}"]
        command += ["--workers", str(self._workers)]
        if self._slots is not None:
            command += ["--slots", str(self._slots)]
        log = self._root / "logs" / "up.log"
        # Before the log is opened in it: `up` refuses a data folder that others can enter.
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process = GuardedProcess.start("ringfence", command, log=log, env=env)
        with Rest(self.url) as rest:
            if not wait_until(lambda: rest.is_ready("/health"), READY_SECONDS, pause=0.2):
                self.stop()
                raise BenchmarkError(f"Ringfence was not ready within {READY_SECONDS:.0f} s: see {log.parent}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(grace=60)
