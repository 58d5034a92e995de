"""The tables that a configuration selects, and their source partitions."""

from collections.abc import Mapping, Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ParsedConfig
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database

TableName = tuple[str | None, str]
"""Schema and table."""
QUERY_PARTITION: Final[Mapping[str, object]] = {"query": "query"}
"""The source partition of a query."""


def list_tables(database: Database, connection: Connection, settings: ParsedConfig) -> list[TableName]:
    """Return the selected tables, sorted."""
    default = _schema(database, connection, settings)
    included, unwanted = ({str(one) for one in settings.strings(each)} for each in (names.TABLES, names.TABLES_EXCLUDE))
    return [
        one
        for one in list_all_tables(database, connection, settings)
        if (not included or _names(one, default) & included) and not _names(one, default) & unwanted
    ]


def list_all_tables(database: Database, connection: Connection, settings: ParsedConfig) -> list[TableName]:
    """Return the tables of the schema, and of the schemas in `table.whitelist`, sorted."""
    included = {str(one) for one in settings.strings(names.TABLES)}
    schemas = {
        _schema(database, connection, settings),
        *(one.rpartition(".")[0] for one in included if "." in one),
    }
    inspector = sa.inspect(connection)
    tables = [(one, table) for one in schemas for table in inspector.get_table_names(schema=one)]
    return sorted(tables, key=lambda one: (one[0] or "", one[1]))


def _schema(database: Database, connection: Connection, settings: ParsedConfig) -> str | None:
    default = sa.inspect(connection).default_schema_name if database.kind != "sqlite" else None
    return str(settings.get(names.SCHEMA) or "") or default


def find_missing(tables: Sequence[TableName], settings: ParsedConfig) -> list[str]:
    """Return tables that the configuration names and the database does not have."""
    table_names = {name for one in tables for name in (one[1], f"{one[0]}.{one[1]}")}
    return sorted(str(one) for one in settings.strings(names.TABLES) if one not in table_names)


def partitions_of(database: Database, table: TableName) -> list[dict[str, object]]:
    """Return the table's source partition, then the other partitions that the JDBC source connector may have used."""
    schema, name = table
    inner = f"{schema}.{name}" if schema else name
    full = f"{database.name}.{inner}" if database.kind == "postgresql" and database.name else inner
    unique = dict.fromkeys((full, inner, name))
    current: list[dict[str, object]] = [{"protocol": "1", "table": one} for one in unique]
    return [*current, {"table": name}]


def reflect_table(connection: Connection, table: TableName) -> sa.Table:
    """Return the table with its columns. Raises `sqlalchemy.exc.SQLAlchemyError`."""
    return sa.Table(table[1], sa.MetaData(), schema=table[0], autoload_with=connection, resolve_fks=False)


def _names(table: TableName, default: str | None) -> set[str]:
    schema, name = table
    return {f"{schema}.{name}", *([name] if schema == default else [])}
