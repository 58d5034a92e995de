"""What a task's configuration determines: the server, the session for catalog queries, the selection, and the settings
of records and types.
"""

import logging
import os
import re
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import Any, Final

import psycopg
from psycopg import sql

from ringfence.connectors.api import ConnectorError, ParsedConfig, Password
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.pgoutput import Relation
from ringfence.connectors.builtin.postgres.records import RecordMaker, RecordSettings
from ringfence.connectors.builtin.postgres.settings import CONFIG_DEF, Rename, Selection, renaming, rule
from ringfence.connectors.builtin.postgres.tables import Describe, Table, read_table, read_type
from ringfence.connectors.builtin.postgres.types import Types, TypeSettings
from ringfence.connectors.sdk import egress, worker_limits
from ringfence.connectors.sdk.files import pin
from ringfence.connectors.sdk.unsupported_values import handling_of

logger = logging.getLogger(__name__)

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


def selection_of(config: ParsedConfig) -> Selection:
    """Return the selection of schemas, tables, columns and messages."""
    return Selection(
        rule(config, names.SCHEMAS, names.SCHEMAS_EXCLUDE),
        rule(config, names.TABLES, names.TABLES_EXCLUDE),
        rule(config, names.COLUMNS, names.COLUMNS_EXCLUDE),
        rule(config, names.MESSAGES, names.MESSAGES_EXCLUDE),
        config.string(names.KEY_COLUMNS) if config[names.KEY_COLUMNS] is not None else None,
    )


def captured_tables(session: Session, selection: Selection) -> list[tuple[str, str]]:
    """Return schema and name of each captured table of the database."""
    rows = session.query(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind = 'r' AND c.relpersistence = 'p' ORDER BY 1, 2"
    )
    return [(schema, table) for schema, table in rows if selection.has_table(schema, table)]


def describer(session: Session, config: ParsedConfig, selection: Selection, rename: Rename) -> Describe:
    """Return a function that describes a relation as a `Table`, using the current catalog. rename: column to field."""
    types = Types(type_settings(config), lambda oid: read_type(session.query, oid))

    def describe(relation: Relation) -> Table:
        schema, name = relation.schema, relation.name
        table = Table(
            relation,
            read_table(session.query, relation.oid),
            types,
            config.string(names.PREFIX),
            rename=rename,
            captured=lambda column: selection.has_column(schema, name, column),
            key_columns=selection.key_columns(schema, name),
            placeholder=config.string(names.PLACEHOLDER),
        )
        if table.left_out:
            columns = ", ".join(table.left_out)
            logger.warning(
                "Columns of %s.%s are left out, because their types are not supported: %s", schema, name, columns
            )
        return table

    return describe


def record_settings(
    config: ParsedConfig, database: str, partition: dict[str, object], skipped: Set[str]
) -> RecordSettings:
    """Return the settings of records. skipped: operations without records."""
    return RecordSettings(
        config.string(names.PREFIX),
        database,
        partition,
        config.boolean(names.TOMBSTONES),
        frozenset(skipped),
        config.boolean(names.METADATA),
        config.boolean(names.CONTEXT_HEADERS),
        config.string(names.HEARTBEAT_PREFIX),
    )


def type_settings(config: ParsedConfig) -> TypeSettings:
    """Return the settings of types."""
    return TypeSettings(
        config.string(names.DECIMALS),
        config.string(names.TIMES),
        config.string(names.BINARY),
        config.string(names.INTERVALS),
        config.string(names.HSTORE),
        config.integer(names.MONEY_DIGITS),
        config.boolean(names.UNKNOWN_TYPES),
        handling_of(config),
    )


_DEFAULT_TIMEOUT_MS = 60_000


class Setup:
    """A task's parsed configuration. session: for catalog queries; the task closes it."""

    def __init__(self, config: Mapping[str, str]) -> None:
        settings: ParsedConfig = CONFIG_DEF.parse(config)
        self.settings = settings
        self.server = Server(settings, config.get("name", ""))
        self.session = Session(self.server)
        self.slot = settings.string(names.SLOT)
        self.publication = settings.string(names.PUBLICATION)
        self.prefix = settings.string(names.PREFIX)
        self.partition: dict[str, object] = {"server": self.prefix}
        self.selection = selection_of(settings)
        self._rename = renaming(settings.string(names.FIELD_NAMES), config)
        self.batch_size = settings.integer(names.BATCH_SIZE)
        timeout_ms = int(config.get("producer.override.transaction.timeout.ms", _DEFAULT_TIMEOUT_MS))
        self.longest_seconds = timeout_ms / 2000
        """The longest time for which a Kafka transaction should be open: half of its timeout."""

    @property
    def silent_operations(self) -> frozenset[str]:
        """Operations without records (`skipped.operations`)."""
        operations = self.settings[names.SKIPPED]
        assert isinstance(operations, list)
        return frozenset(map(str, operations))

    @cached_property
    def records(self) -> RecordSettings:
        return record_settings(self.settings, self.server.database, self.partition, self.silent_operations)

    def new_maker(self) -> RecordMaker:
        return RecordMaker(self.records)

    def new_describer(self) -> Describe:
        return describer(self.session, self.settings, self.selection, self._rename)

    def query_server_version(self) -> int:
        return self.session.connection.info.server_version
