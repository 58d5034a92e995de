"""A real MariaDB server, where the machine has one (Debian: mariadb-server)."""

import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from ringfence.local.ports import free_port
from tests.support.waiting import eventually

NEEDS = "MariaDB"

PASSWORD = "maria"
WITH_BINLOG = {"log-bin": "binlog", "server-id": "1", "binlog-format": "ROW", "binlog-row-image": "FULL"}
"""What change data capture asks of a server."""


class MariaDb:
    """A server with the database `ringfence`, whose owner is the user of that name. It may be killed and started again.

    settings: of the server, such as `{"log_bin": "binlog"}`.
    """

    administrator = getpass.getuser()

    def __init__(self, root: Path, settings: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        self._data = root / "data"
        self._log = root / "mariadb.log"
        self._settings = dict(settings or {})
        self._server: subprocess.Popen[bytes] | None = None
        self._install()
        self.start()
        self.administer(
            "CREATE DATABASE ringfence",
            f"CREATE USER ringfence@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
            "GRANT ALL PRIVILEGES ON *.* TO ringfence@'127.0.0.1'",
        )

    def _install(self) -> None:
        subprocess.run(
            [
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={self._data}",
                "--skip-test-db",
                *self._user(),
                "--auth-root-authentication-method=socket",
                f"--auth-root-socket-user={self.administrator}",
            ],
            check=True,
            capture_output=True,
        )

    def _command(self, options: Sequence[str]) -> list[str]:
        return ["mariadbd", "--no-defaults", *self._user(), *options]

    @staticmethod
    def _user() -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    def administer(self, *statements: str) -> None:
        """As the server's root."""
        socket = str(self._data / "socket")
        with closing(pymysql.connect(unix_socket=socket, user=self.administrator, autocommit=True)) as connection:
            for statement in statements:
                connection.cursor().execute(statement)

    def start(self) -> None:
        """Returns when it answers."""
        settings = {
            "datadir": str(self._data),
            "port": str(self.port),
            "bind-address": "127.0.0.1",
            "socket": str(self._data / "socket"),
            "pid-file": str(self._data / "pid"),
            "innodb-flush-log-at-trx-commit": "0",
            **self._settings,
        }
        options = [f"--{key}={value}" for key, value in settings.items()]
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(self._command(options), stdout=log, stderr=log)
        eventually(self._answers, 60, lambda: self._log.read_text(errors="replace"), pause=0.1)

    def _answers(self) -> bool:
        socket = str(self._data / "socket")
        try:
            pymysql.connect(unix_socket=socket, user=self.administrator).close()
        except pymysql.err.OperationalError as error:
            return bool(error.args[0] == 1045)  # it refuses us, so it is there
        return True

    def connect(self, *, autocommit: bool = True) -> "pymysql.connections.Connection[Any]":
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="ringfence",
            password=PASSWORD,
            database="ringfence",
            autocommit=autocommit,
        )

    def run(self, *statements: str) -> None:
        with closing(self.connect()) as connection:
            for statement in statements:
                connection.cursor().execute(statement)

    def kill(self) -> None:
        """SIGKILL."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None


@contextmanager
def mariadb(root: Path, settings: Mapping[str, str] | None = None) -> Iterator[MariaDb]:
    """Skips where the machine has no MariaDB."""
    if shutil.which("mariadbd") is None or shutil.which("mariadb-install-db") is None:
        pytest.skip("there is no MariaDB on this machine: apt install mariadb-server")
    server = MariaDb(root, settings)
    try:
        yield server
    finally:
        server.kill()
