"""Connections to the database of a configuration."""

import os
import re
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from ringfence.connectors.api import ConnectorError, ParsedConfig, Password
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.sdk import egress, worker_limits
from ringfence.connectors.sdk.files import pin

CONNECT_SECONDS: Final = 10
_NO_FILE: Final = os.devnull + "/none"
"""Replaces libpq's default files in the worker user's home folder, which tenants must not use."""
_HOST: Final = re.compile(r"[A-Za-z0-9_.:%-]+")
_SESSION: Final = (
    "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=1 -c lc_monetary=C "
    "-c bytea_output=hex"
)


def application_name(connector: str) -> str:
    """Return the application_name of a connector's connections, at most 63 bytes."""
    return f"ringfence {connector}".encode()[:63].decode(errors="ignore")


class Server:
    """The database server and the user. `connect` raises `ConnectorError` if the worker does not allow the address."""

    def __init__(self, config: ParsedConfig, connector: str) -> None:
        self.host = config.string(names.HOST).strip()
        self.port = config.integer(names.PORT)
        self.user = config.string(names.USER)
        self.database = config.string(names.DATABASE)
        self.application = application_name(connector)
        self._password = config.get(names.PASSWORD)
        self._ssl = config.string(names.SSL_MODE)
        self._root = config.get(names.SSL_ROOT)

    def connect(self, *, replication: bool = False) -> "psycopg.Connection[tuple[Any, ...]]":
        """Open a connection in autocommit mode. Raises `ConnectorError`, whose cause may be an `OperationalError`."""
        options: dict[str, object] = {
            "host": self.host,
            "hostaddr": self._address(),
            "port": self.port,
            "user": self.user,
            "dbname": self.database,
            "sslmode": self._ssl,
            "passfile": _NO_FILE,
            "sslcert": _NO_FILE,
            "sslkey": _NO_FILE,
            "sslrootcert": self._root_file(),
            "gssencmode": "disable",
            "connect_timeout": CONNECT_SECONDS,
            "application_name": self.application,
            "options": _SESSION,
            "client_encoding": "UTF8",
        }
        if isinstance(self._password, Password):
            options["password"] = self._password.value
        if replication:
            options["replication"] = "database"
        try:
            return psycopg.connect(autocommit=True, **options)  # type: ignore[arg-type] # texts and numbers
        except psycopg.OperationalError as error:
            raise ConnectorError(
                f"Cannot connect to the database server at {self.host}:{self.port}: {one_line(error)}. Check "
                f"{names.HOST}, {names.PORT}, {names.DATABASE}, {names.USER}, {names.PASSWORD} and {names.SSL_MODE}, "
                "and the server's pg_hba.conf."
            ) from error

    def _address(self) -> str:
        if not _HOST.fullmatch(self.host):
            raise ConnectorError(f"{names.HOST}={self.host}: give the name or the address of one server.")
        try:
            return egress.Policy(worker_limits.current().egress).addresses(self.host, self.port)[0]
        except egress.EgressDenied as refused:
            raise ConnectorError(f"{refused}.") from refused
        except (OSError, UnicodeError) as error:
            raise ConnectorError(f"The name {self.host} cannot be resolved. Check {names.HOST}.") from error

    def _root_file(self) -> str:
        if self._root is None:
            return "" if self._ssl in ("verify-ca", "verify-full") else _NO_FILE
        try:
            return pin(str(self._root))
        except (OSError, ValueError) as error:
            raise ConnectorError(
                f"The file {self._root} cannot be read: {one_line(error)}. Check {names.SSL_ROOT}."
            ) from error


def one_line(error: Exception) -> str:
    """Return the message of an error in one line, without a period."""
    return " ".join(str(error).split()).rstrip(".")


class Session:
    """A connection for catalog queries. It connects on first use, and again after the connection was lost."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def connection(self) -> "psycopg.Connection[tuple[Any, ...]]":
        if self._connection is None or self._connection.closed:
            self._connection = self._server.connect()
        return self._connection

    def query(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of one statement. Retries once on a new connection if the server has closed the old one."""
        for last in (False, True):
            try:
                cursor = self.connection.execute(statement.encode(), parameters or None)
                return cursor.fetchall() if cursor.description is not None else []
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if last or (self._connection is not None and not self._connection.closed):
                    raise
        raise AssertionError("the second attempt returns or raises")

    def execute(self, statement: sql.Composed) -> None:
        """Execute a statement that contains identifiers."""
        self.connection.execute(statement)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
