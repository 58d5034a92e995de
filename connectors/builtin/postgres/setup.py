"""A task's configuration, and the objects that it determines: session, selection, settings of records and types."""

import logging
from collections.abc import Mapping, Set
from functools import cached_property

from ringfence.connectors.api import ParsedConfig
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.catalog import read_table, read_type
from ringfence.connectors.builtin.postgres.pgoutput import Relation
from ringfence.connectors.builtin.postgres.records import RecordMaker, RecordSettings
from ringfence.connectors.builtin.postgres.selection import Rename, Selection, renaming, rule
from ringfence.connectors.builtin.postgres.session import Server, Session
from ringfence.connectors.builtin.postgres.settings import CONFIG_DEF
from ringfence.connectors.builtin.postgres.tables import Describe, Table
from ringfence.connectors.builtin.postgres.types import Types, TypeSettings
from ringfence.connectors.sdk.unsupported_values import handling_of

logger = logging.getLogger(__name__)


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
