"""Connections to the configured database. Needs SQLAlchemy and the dialect's driver."""

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.pool import NullPool

from ringfence.connectors.api import ConnectorError, ParsedConfig, Password
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.driver_values import DriverValues
from ringfence.connectors.builtin.sql.settings import load_zone
from ringfence.connectors.sdk import egress, files, worker_limits
from ringfence.connectors.sdk.unsupported_values import handling_of

CONNECT_SECONDS: Final = 5
"""Less than a validation may take, so that a database that does not answer is an error in it, not its end."""
_NO_FILE: Final = os.devnull + "/none"
_PORTS: Final = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_DRIVERS: Final = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
_OPTIONS: Final = {"postgresql": {"sslmode"}, "mysql": {"charset"}, "mariadb": {"charset"}}
"""Parameters that a URL may contain: others could name files of the worker."""
_PRECISION: Final = "date_precision"
_UNITS: Final = {"milliseconds": 1000, "seconds": 1_000_000}
"""For SQLite: the values of the parameter, with the microseconds that a number stands for."""
_URL: Final = re.compile(r"(?:jdbc:)?(?P<kind>[a-z0-9]+)(?:\+(?P<driver>[a-z0-9_]+))?:(?P<rest>.*)", re.DOTALL)


class Login(NamedTuple):
    """The names of the settings for the database's address, user and password."""

    url: str = names.URL
    user: str = names.USER
    password: str = names.PASSWORD


DEFAULT_LOGIN: Final = Login()


class Database:
    """A database and its credentials. Raises `ConnectorError` for what the worker does not allow."""

    def __init__(self, settings: ParsedConfig, login: Login = DEFAULT_LOGIN) -> None:
        self._login = login
        self._settings = settings
        self._url, self._options = _translate(settings, login)
        self.kind = self._url.get_backend_name()
        self.name = self._url.database or ""

    def values(self) -> DriverValues:
        """Return what the driver's values become. Raises `ConnectorError`."""
        handling, zone = handling_of(self._settings), load_zone(self._settings.string(names.ZONE))
        if self.kind == "postgresql":
            from ringfence.connectors.builtin.sql.postgres_values import PostgresValues

            return PostgresValues(handling, zone)
        if self.kind == "sqlite":
            from ringfence.connectors.builtin.sql.sqlite_values import SqliteValues

            return SqliteValues(handling, zone, _unit(self._settings.string(self._login.url), self._login))
        from ringfence.connectors.builtin.sql.driver_values import MySqlValues

        return MySqlValues(handling, zone)

    def engine(self, values: DriverValues | None = None) -> Engine:
        """The engine. Its connections are in autocommit mode and in UTC. Connecting raises
        `sqlalchemy.exc.DBAPIError`.

        values: for connections that read rows, not the catalog: what `DriverValues.fetch` is called with.
        """
        options = {**self._options, **(values.connect_options if values else {})}
        # hstore is read as text; asking for its id at each connection is not needed.
        of_dialect: dict[str, Any] = {"use_native_hstore": False} if self.kind == "postgresql" else {}
        try:
            engine = sa.create_engine(
                self._url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=options, **of_dialect
            )
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise ConnectorError(
                f"{self._login.url}: no driver for {self.kind} databases is installed here ({error}). Install one on "
                "every worker: pip install 'ringfence[sql]' includes those for PostgreSQL, MySQL and MariaDB."
            ) from error
        if self.kind in ("mysql", "mariadb"):
            sa.event.listen(engine, "connect", _use_utc)
        if values is not None:
            sa.event.listen(engine, "connect", lambda connection, _: values.prepare(connection))
        elif self.kind == "sqlite":
            sa.event.listen(engine, "connect", _limit_values)
        return engine

    def read_now(self, connection: Connection) -> datetime:
        """Return the server's time, with a time zone."""
        now: Any = connection.scalar(sa.select(sa.func.current_timestamp()))
        moment: datetime = datetime.fromisoformat(now) if isinstance(now, str) else now  # SQLite returns a string
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def explain(error: sa.exc.SQLAlchemyError) -> str:
    """Return the driver's message, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split())[:500]


def _translate(settings: ParsedConfig, login: Login) -> tuple[URL, dict[str, object]]:
    text = settings.string(login.url).strip()
    match = _URL.fullmatch(text)
    if match is None:
        raise ConnectorError(f"{login.url} must have the form jdbc:postgresql://host:5432/database.")
    kind = "postgresql" if match["kind"] == "postgres" else match["kind"]
    if kind == "sqlite":
        return _sqlite(match["rest"], login)
    if kind not in _DRIVERS:
        raise ConnectorError(
            f"{login.url}: databases of the kind {kind!r} are not supported. Supported are postgresql, mysql, mariadb "
            "and sqlite; read other databases with a JDBC plugin in plugin.path."
        )
    parts = urlsplit(f"{kind}:{match['rest']}")
    try:
        host, port = parts.hostname, parts.port or _PORTS[kind]
    except ValueError as error:
        raise ConnectorError(f"{login.url}: the port is not a number.") from error
    database = parts.path.strip("/")
    if not host or not database:
        raise ConnectorError(f"{login.url} must name a host and a database: jdbc:{kind}://host:{port}/database.")
    if parts.username or parts.password:
        raise ConnectorError(f"{login.url} must not contain a user or password: set {login.user} and {login.password}.")
    options = _query_options(kind, dict(parse_qsl(parts.query, keep_blank_values=True)), login)
    address = _address(host, port, login)
    connect: dict[str, object] = {"connect_timeout": CONNECT_SECONDS, **options}
    if kind == "postgresql":
        # libpq connects to the address that was checked, and verifies the certificate by the host name.
        connect |= {"hostaddr": address, "passfile": _NO_FILE, "sslcert": _NO_FILE, "sslkey": _NO_FILE}
        connect |= {"options": _session(), "application_name": "ringfence", "gssencmode": "disable"}
        connect |= {"client_encoding": "utf8"}
    else:
        host = address
        connect |= {"read_default_file": None, "local_infile": False}
    password = settings.get(login.password)
    return (
        URL.create(
            _DRIVERS[kind],
            username=str(settings.get(login.user) or "") or None,
            password=password.value if isinstance(password, Password) else None,
            host=host,
            port=port,
            database=database,
        ),
        connect,
    )


def _query_options(kind: str, options: Mapping[str, str], login: Login) -> dict[str, str]:
    unknown = sorted(options.keys() - _OPTIONS[kind])
    if unknown:
        raise ConnectorError(
            f"{login.url}: the parameter {unknown[0]} is not allowed. Allowed: {', '.join(sorted(_OPTIONS[kind]))}."
        )
    return dict(options)


def _address(host: str, port: int, login: Login) -> str:
    try:
        return egress.Policy(worker_limits.current().egress).addresses(host, port)[0]
    except egress.EgressDenied as error:
        raise ConnectorError(f"{login.url}: {error}.") from error
    except (OSError, UnicodeError) as error:
        raise ConnectorError(f"{login.url}: the host {host} cannot be resolved here ({error}).") from error


def _sqlite(rest: str, login: Login) -> tuple[URL, dict[str, object]]:
    """Accept `sqlite:////path` as SQLAlchemy writes it, and `jdbc:sqlite:/path` as JDBC does. Read only."""
    path = rest.partition("?")[0]
    _unit(rest, login)
    path = path.removeprefix("//").removeprefix("/") if path.startswith("////") else path.removeprefix("//")
    if not path.startswith("/"):
        raise ConnectorError(f"{login.url} must contain an absolute path: jdbc:sqlite:/path.")
    try:
        os.close(files.open_allowed(path))
    except OSError as error:
        raise ConnectorError(
            f"{login.url}: {path} cannot be opened here ({error.strerror}). Check the path."
        ) from error
    real = os.path.realpath(path)
    quoted = real.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return URL.create("sqlite", database=f"file:{quoted}", query={"mode": "ro", "uri": "true"}), {
        "timeout": CONNECT_SECONDS
    }


def _unit(url: str, login: Login) -> int:
    """Return the microseconds that a number stands for in columns of dates and times."""
    options = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
    precision = options.get(_PRECISION, "milliseconds").lower()
    if precision not in _UNITS:
        raise ConnectorError(f"{login.url}: {_PRECISION} must be {' or '.join(_UNITS)}.")
    return _UNITS[precision]


def _session() -> str:
    from ringfence.connectors.builtin.sql.postgres_values import SESSION

    return " ".join(f"-c {name}={value}" for name, value in SESSION.items())


def _limit_values(connection: Any, _: object) -> None:
    from ringfence.connectors.builtin.sql.sqlite_values import limit_values

    limit_values(connection)


def _use_utc(connection: Any, _: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
