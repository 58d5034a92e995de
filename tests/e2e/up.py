"""`ringfence up` as a real process, in a directory of its own."""

import contextlib
import ctypes
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from ringfence.fencing.kafka.connection import Connection
from ringfence.local.data_directory import DataDirectory
from ringfence.local.guarded_process import process_exists
from ringfence.local.ports import free_port
from tests.e2e import processes
from tests.e2e.rest import Rest
from tests.support.waiting import eventually

NEEDS = "a platform"

_READY_SECONDS = 240.0
_OURS = ("RINGFENCE_", "CONNECT_", "DJANGO_")
_PR_SET_PDEATHSIG = 1
# None of these platforms lives long enough for the second compiler, which takes more CPU time than a broker's start.
_FIRST_COMPILER = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without what other tests have set in it."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
    return {**clean, **settings}


class Up:
    """One `up` on `data`. After its end another one may go on with the same directory: `start` again.

    A `with` block starts it, and ends it.
    """

    def __init__(self, data: Path, workers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.data = data
        self.workers = workers
        self.http = f"127.0.0.1:{free_port()}"
        self.kafka_port = free_port()
        self.rest = Rest(f"http://{self.http}")
        self.cwd: Path | None = None
        """Where it is started; None: where the tests are."""
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @classmethod
    def attached(cls, data: Path, workers: int) -> "Up":
        """One that somebody else has started, and stops."""
        up = cls(data, workers)
        state = json.loads((data / "state.json").read_text())
        up.http, up.kafka_port = state["http"], int(state["kafka"])
        up.rest = Rest(f"http://{up.http}")
        return up

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.kafka_port}"

    @property
    def connection(self) -> Connection:
        """With the login of the embedded Kafka; another one, which a test brings, has none."""
        login = None if self._elsewhere else DataDirectory(self.data).kafka_login()
        return Connection(self.bootstrap, login.librdkafka_settings() if login else {}, client_id="e2e")

    @property
    def kafka_variables(self) -> dict[str, str]:
        """Where Kafka is, and the login, as a worker's variables."""
        login = {f"CONNECT_{key.upper().replace('.', '_')}": value for key, value in self.kafka_login.items()}
        return {"CONNECT_BOOTSTRAP_SERVERS": self.bootstrap, **login}

    @property
    def kafka_login(self) -> dict[str, str]:
        """The same login, for Java clients."""
        login = DataDirectory(self.data).kafka_login()
        return login.java_settings() if login else {}

    @property
    def _elsewhere(self) -> bool:
        return "CONNECT_BOOTSTRAP_SERVERS" in self._settings

    @property
    def redis_port(self) -> int:
        return int(json.loads((self.data / "state.json").read_text())["redis"])

    @property
    def redis_url(self) -> str:
        password = (self.data / "redis-password").read_text().strip()
        return f"redis://:{password}@127.0.0.1:{self.redis_port}/0"

    @property
    def lock_holder(self) -> int:
        """The process id of the living `up`."""
        return int((self.data / "lock").read_text())

    @property
    def output(self) -> Path:
        """What `up` printed."""
        return self.data / "up.txt"

    def command(self) -> list[str]:
        ports = ["--http", self.http, *([] if self._elsewhere else ["--kafka", self.bootstrap])]
        return [sys.executable, "-m", "ringfence.cli", "up", "--data", str(self.data), *ports]

    def start(self) -> float:
        """Start it and wait for the ready line; the seconds that took."""
        began = time.monotonic()
        self.launch()
        self.await_ready()
        return time.monotonic() - began

    def launch(self) -> None:
        """Start it, and return at once."""
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [*self.command(), "--workers", str(self.workers)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**_FIRST_COMPILER, **environment(self._settings)},
                cwd=self.cwd,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # also where a timeout ends pytest in the middle of a test
            )

    def await_ready(self) -> None:
        """Wait for the ready line."""
        process = self._process
        assert process is not None

        def ready() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"`up` has ended with code {process.returncode}:\n{self.output.read_text()}")
            return "Ringfence is ready at" in self.output.read_text()

        eventually(ready, _READY_SECONDS, lambda: f"the ready line\n{self.output.read_text()}", pause=0.1)

    def stop(self) -> int:
        """SIGTERM, and wait for the end; the exit code."""
        process = self._process
        assert process is not None
        process.terminate()
        return process.wait(90)

    def kill(self) -> None:
        """SIGKILL to `up` itself."""
        process = self._process
        assert process is not None
        process.kill()
        process.wait()

    def end(self) -> None:
        """However it stands: nothing of it is left afterwards. Not in order, which takes longer: `stop` does that."""
        process = self._process
        if process is not None and process.poll() is None:
            for seconds in (0.5, 60):  # the second signal ends everything at once
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
                    break
            else:
                self.kill()
        self.rest.close()

    def pid(self, role: str) -> int:
        """The living process of a role; waits for one that is being started again."""
        file = self.data / "run" / f"{role}.pid"

        def living() -> int:
            try:
                pid = int(file.read_text() or 0)
            except FileNotFoundError:  # it was not started yet, or the supervisor notices its end at this moment
                pid = 0
            return pid if process_exists(pid) else 0

        return eventually(living, 30, f"a living {role}", pause=0.1)

    @contextlib.contextmanager
    def frozen(self, pids: Sequence[int]) -> Iterator[None]:
        """SIGSTOP to each, SIGCONT at the end of the block; not in the middle of a write to the database.

        Who sleeps there holds SQLite's lock on the whole file, and nobody sees anything new until it wakes.
        """
        for number in range(20):
            with processes.frozen(pids):
                if self._database_is_free():
                    yield
                    return
            time.sleep(0.1 + 0.07 * number)  # time enough to come to the end of what was held up, and more each time
        raise AssertionError("The database was locked each time that the processes were frozen")

    def _database_is_free(self) -> bool:
        with contextlib.closing(sqlite3.connect(self.data / "ringfence.sqlite3", timeout=1)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            database.rollback()
            return True

    def log(self, role: str) -> str:
        """All that a role has logged."""
        return (self.data / "logs" / f"{role}.log").read_text(errors="replace")


class UpOnASmallDisk(Up):
    """On a disk that a test fills: what it prints stands beside that."""

    @property
    def output(self) -> Path:
        return self.data.parent.parent / "up.txt"
