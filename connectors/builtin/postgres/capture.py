"""Turns the settings into a selection, record settings and type settings."""

import logging
from collections.abc import Set

from ringfence.connectors.api import ParsedConfig
from ringfence.connectors.builtin.postgres import setting_names as names
from ringfence.connectors.builtin.postgres.catalog import read_table, read_type
from ringfence.connectors.builtin.postgres.column_types import TypeSettings
from ringfence.connectors.builtin.postgres.field_names import Rename
from ringfence.connectors.builtin.postgres.known_tables import Describe
from ringfence.connectors.builtin.postgres.pgoutput import Relation
from ringfence.connectors.builtin.postgres.records import RecordSettings
from ringfence.connectors.builtin.postgres.selection import Selection, rule
from ringfence.connectors.builtin.postgres.session import Session
from ringfence.connectors.builtin.postgres.tables import Table
from ringfence.connectors.builtin.postgres.types import Types

logger = logging.getLogger(__name__)


def selection_of(parsed: ParsedConfig) -> Selection:
    """Return the selection of schemas, tables, columns and messages."""
    return Selection(
        rule(parsed, names.SCHEMAS, names.SCHEMAS_EXCLUDE),
        rule(parsed, names.TABLES, names.TABLES_EXCLUDE),
        rule(parsed, names.COLUMNS, names.COLUMNS_EXCLUDE),
        rule(parsed, names.MESSAGES, names.MESSAGES_EXCLUDE),
        parsed.string(names.KEY_COLUMNS) if parsed[names.KEY_COLUMNS] is not None else None,
    )


def captured_tables(session: Session, selection: Selection) -> list[tuple[str, str]]:
    """Return schema and name of each captured table of the database."""
    rows = session.query(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind = 'r' AND c.relpersistence = 'p' ORDER BY 1, 2"
    )
    return [(schema, table) for schema, table in rows if selection.has_table(schema, table)]


def describer(session: Session, parsed: ParsedConfig, selection: Selection, rename: Rename) -> Describe:
    """Return a function that describes a relation as a `Table`, using the current catalog. rename: column to field."""
    types = Types(type_settings(parsed), lambda oid: read_type(session.query, oid))

    def describe(relation: Relation) -> Table:
        schema, name = relation.schema, relation.name
        table = Table(
            relation,
            read_table(session.query, relation.oid),
            types,
            parsed.string(names.PREFIX),
            rename=rename,
            captured=lambda column: selection.has_column(schema, name, column),
            key_columns=selection.key_columns(schema, name),
            placeholder=parsed.string(names.PLACEHOLDER),
        )
        if table.left_out:
            columns = ", ".join(table.left_out)
            logger.warning(
                "Columns of %s.%s are left out, because their types are not supported: %s", schema, name, columns
            )
        return table

    return describe


def record_settings(
    parsed: ParsedConfig, database: str, partition: dict[str, object], skipped: Set[str]
) -> RecordSettings:
    """Return the settings of records. skipped: operations without records."""
    return RecordSettings(
        parsed.string(names.PREFIX),
        database,
        partition,
        parsed.boolean(names.TOMBSTONES),
        frozenset(skipped),
        parsed.boolean(names.METADATA),
        parsed.boolean(names.CONTEXT_HEADERS),
        parsed.string(names.HEARTBEAT_PREFIX),
    )


def type_settings(parsed: ParsedConfig) -> TypeSettings:
    """Return the settings of types."""
    return TypeSettings(
        parsed.string(names.DECIMALS),
        parsed.string(names.TIMES),
        parsed.string(names.BINARY),
        parsed.string(names.INTERVALS),
        parsed.string(names.HSTORE),
        parsed.integer(names.MONEY_DIGITS),
        parsed.boolean(names.UNKNOWN_TYPES),
    )
