"""The tables that a configuration selects, and how their source partitions are named."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ParsedConfig
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database

TableName = tuple[str | None, str]
"""Schema and table."""


def list_tables(database: Database, connection: Connection, parsed: ParsedConfig) -> list[TableName]:
    """The tables that are read, sorted."""
    inspector = sa.inspect(connection)
    default = inspector.default_schema_name if database.kind != "sqlite" else None
    schema = str(parsed.get(names.SCHEMA) or "") or default
    wanted, unwanted = ({str(one) for one in parsed.strings(each)} for each in (names.TABLES, names.TABLES_EXCLUDE))
    schemas = {schema, *(one.rpartition(".")[0] for one in wanted if "." in one)}
    found = [(one, table) for one in schemas for table in inspector.get_table_names(schema=one)]
    return sorted(
        (one for one in found if (not wanted or _names(one, schema) & wanted) and not _names(one, schema) & unwanted),
        key=lambda one: (one[0] or "", one[1]),
    )


def find_missing(found: Sequence[TableName], parsed: ParsedConfig) -> list[str]:
    """Tables that the configuration names and that are not there."""
    known = {name for one in found for name in (one[1], f"{one[0]}.{one[1]}")}
    return sorted(str(one) for one in parsed.strings(names.TABLES) if one not in known)


def partitions_of(database: Database, table: TableName) -> list[dict[str, object]]:
    """The source partition of a table, and then the other names that the JDBC source connector may have given it."""
    schema, name = table
    inner = f"{schema}.{name}" if schema else name
    full = f"{database.name}.{inner}" if database.kind == "postgresql" and database.name else inner
    unique = dict.fromkeys((full, inner, name))
    current: list[dict[str, object]] = [{"protocol": "1", "table": one} for one in unique]
    return [*current, {"table": name}]


def _names(table: TableName, default: str | None) -> set[str]:
    schema, name = table
    return {f"{schema}.{name}", *([name] if schema == default else [])}
