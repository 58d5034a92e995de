"""Connections to the database, as a configuration describes them."""

import os
import re
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from ringfence.connectors import egress, worker_limits
from ringfence.connectors.api import ConnectorError, ParsedConfig, Password
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.pinned_files import pin

CONNECT_SECONDS: Final = 10
_NO_FILE: Final = os.devnull + "/none"
"""In place of the files in the worker user's home folder, which are not a tenant's to use."""
_HOST: Final = re.compile(r"[A-Za-z0-9_.:%-]+")
_SESSION: Final = "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=1 -c lc_monetary=C"


def application_name(connector: str) -> str:
    """Under which the server lists the connections of a connector; at most 63 bytes."""
    return f"ringfence {connector}".encode()[:63].decode(errors="ignore")


class Server:
    """Where to connect to, and as whom. Raises `ConnectorError` for an address that the worker does not allow."""

    def __init__(self, parsed: ParsedConfig, connector: str) -> None:
        self.host = parsed.string(names.HOST).strip()
        self.port = parsed.integer(names.PORT)
        self.user = parsed.string(names.USER)
        self.database = parsed.string(names.DATABASE)
        self.application = application_name(connector)
        self._password = parsed.get(names.PASSWORD)
        self._ssl = parsed.string(names.SSL_MODE)
        self._root = parsed.get(names.SSL_ROOT)

    def connect(self, *, replication: bool = False) -> "psycopg.Connection[tuple[Any, ...]]":
        """A new connection, in autocommit mode. Raises `ConnectorError`; `psycopg.OperationalError` is in its cause."""
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
                f"The database server at {self.host}:{self.port} cannot be used: {one_line(error)}. Check "
                f"{names.HOST}, {names.PORT}, {names.DATABASE}, {names.USER}, {names.PASSWORD} and {names.SSL_MODE}, "
                "and the server's pg_hba.conf."
            ) from error

    def _address(self) -> str:
        if not _HOST.fullmatch(self.host):
            raise ConnectorError(f"{names.HOST}={self.host}: give the name or the address of one server.")
        try:
            return egress.Policy(worker_limits.current().egress).addresses(self.host, self.port)[0]
        except egress.Refused as refused:
            raise ConnectorError(f"{refused}.") from refused
        except (OSError, UnicodeError) as error:
            raise ConnectorError(f"The name {self.host} leads to no address. Check {names.HOST}.") from error

    def _root_file(self) -> str:
        if self._root is None:
            return "" if self._ssl in ("verify-ca", "verify-full") else _NO_FILE
        try:
            return pin(str(self._root))
        except (OSError, ValueError) as error:
            raise ConnectorError(
                f"File {self._root} cannot be read: {one_line(error)}. Check {names.SSL_ROOT}."
            ) from error


def one_line(error: Exception) -> str:
    """The server's words without line breaks."""
    return " ".join(str(error).split()).rstrip(".")


class Session:
    """An ordinary connection for questions to the catalog. It connects when it is needed, and again after a loss."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def connection(self) -> "psycopg.Connection[tuple[Any, ...]]":
        if self._connection is None or self._connection.closed:
            self._connection = self._server.connect()
        return self._connection

    def query(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of one statement. Asks once more on a new connection if the server has closed the old one."""
        for last in (False, True):
            try:
                cursor = self.connection.execute(statement.encode(), parameters or None)
                return cursor.fetchall() if cursor.description is not None else []
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if last or (self._connection is not None and not self._connection.closed):
                    raise
        raise AssertionError("the second try returns or raises")

    def execute(self, statement: sql.Composed) -> None:
        """A statement with names in it."""
        self.connection.execute(statement)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
