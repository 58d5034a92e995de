"""Choices for the form: tables, and the columns that a mode can read by."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import sqlalchemy as sa

from ringfence.connectors.api import Choice, ParsedConfig
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database
from ringfence.connectors.builtin.sql.modes import Relation
from ringfence.connectors.builtin.sql.queries import reflect_query
from ringfence.connectors.builtin.sql.tables import list_all_tables, list_tables, reflect_table

MOST: Final = 500
"""The maximum number of tables to offer."""
_LOOKED_AT: Final = 20
"""The maximum number of tables whose columns are compared."""


def list_choices(settings: ParsedConfig) -> Mapping[str, Sequence[Choice]]:
    """Return the tables, and the columns that all selected tables, or the query, have."""
    database = Database(settings)
    with closing(database.engine().connect()) as connection:
        if query := names.query_of(settings):
            relations: list[Relation] = [reflect_query(database, connection, query)]
        else:
            selected = list_tables(database, connection, settings)[:_LOOKED_AT]
            relations = [reflect_table(connection, table) for table in selected]
        tables = [
            Choice(f"{schema}.{table}" if schema else table)
            for schema, table in list_all_tables(database, connection, settings)[:MOST]
        ]
    return {
        names.TABLES: tables,
        names.TABLES_EXCLUDE: tables,
        names.INCREMENTING: _common(relations, sa.Integer),
        names.TIMESTAMP: _common(relations, sa.DateTime),
    }


def _common(relations: Sequence[Relation], kind: "type[sa.types.TypeEngine[Any]]") -> Sequence[Choice]:
    if not relations:
        return []
    first, *others = (
        {str(one.name): one for one in each.columns if isinstance(one, sa.Column) and isinstance(one.type, kind)}
        for each in relations
    )
    return [Choice(name, _describe(one)) for name, one in first.items() if all(name in each for each in others)]


def _describe(column: "sa.Column[Any]") -> str:
    parts = [str(column.type).lower(), "primary key" if column.primary_key else ""]
    return ", ".join(part for part in parts if part)
