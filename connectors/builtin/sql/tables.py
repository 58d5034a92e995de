"""The tables that a configuration selects, and their source partitions."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ParsedConfig
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database
from ringfence.connectors.builtin.sql.driver_values import Row
from ringfence.connectors.builtin.sql.queries import describe_mysql
from ringfence.connectors.name_length import MAX_NAME_BYTES

TableName = tuple[str | None, str]
"""Schema and table."""
QUERY_PARTITION: Final[Mapping[str, object]] = {"query": "query"}
"""The source partition of a query."""
_LONGEST_KEY: Final = 200
_NOT_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._-]")


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


def topic_of(prefix: str, table: str) -> str:
    """Return a table's topic: `_` stands for each character that topics cannot have."""
    return prefix + _NOT_IN_TOPICS.sub("_", table)


def find_topic_error(prefix: str, tables: Sequence[TableName]) -> str | None:
    """Return why two tables cannot have their topics; None if they can."""
    tables_by_topic: dict[str, str] = {}
    for _, name in tables:
        topic = topic_of(prefix, name)
        former = tables_by_topic.setdefault(topic, name)
        if former != name:
            return (
                f"The tables {former} and {name} would have one topic, {topic}, since topics cannot have all "
                f"characters of their names. Read them by two connectors, each with its own {names.PREFIX}."
            )
    return None


def find_name_error(topic: str) -> str | None:
    """Return why a topic cannot have that name; None if it can."""
    if topic in (".", "..") or len(topic) > MAX_NAME_BYTES or _NOT_IN_TOPICS.search(topic):
        proposed = _NOT_IN_TOPICS.sub("_", topic)[:MAX_NAME_BYTES]
        return (
            f"{topic[:300]!r} cannot be a topic: a name has 1 to {MAX_NAME_BYTES} characters, which are letters a to "
            f"z, digits, '.', '_' and '-'; and it is not '.' or '..'. Possible is {proposed.strip('.') or 'rows'!r}."
        )
    return None


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
    reflected = sa.Table(table[1], sa.MetaData(), schema=table[0], autoload_with=connection, resolve_fks=False)
    if connection.dialect.name in ("mysql", "mariadb"):
        describe_mysql(connection, reflected)
    return reflected


def key_of(relation: sa.FromClause, others: "Sequence[sa.Column[Any]]") -> Callable[[Row], str]:
    """Return a function that names a row in messages: by its primary key, or by other columns."""
    columns = [one for one in relation.columns if isinstance(one, sa.Column)]
    key = [one for one in columns if one.primary_key] or [*others]
    places = [(str(one.name), columns.index(one)) for one in key]

    def name(row: Row) -> str:
        text = ", ".join(f"{column}={row[place]}" for column, place in places) or "without a key"
        return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}…"

    return name


def _names(table: TableName, default: str | None) -> set[str]:
    schema, name = table
    return {f"{schema}.{name}", *([name] if schema == default else [])}
