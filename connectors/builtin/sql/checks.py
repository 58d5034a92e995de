"""Asks the database before the connector starts: what is wrong with a configuration, and which tables and columns a
form can offer.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import Choice, ConnectorError, ParsedConfig
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database, explain
from ringfence.connectors.builtin.sql.modes import MODES, Relation
from ringfence.connectors.builtin.sql.tables import (
    TableName,
    find_missing,
    find_name_error,
    find_topic_error,
    list_all_tables,
    list_tables,
    reflect_query,
    reflect_table,
    topic_of,
)

_NEEDS = {
    names.INCREMENTING_MODE: (names.INCREMENTING,),
    names.TIMESTAMP_MODE: (names.TIMESTAMP,),
    names.BOTH_MODE: (names.TIMESTAMP, names.INCREMENTING),
}


def find_errors(settings: ParsedConfig, *, renamed: bool = False) -> Mapping[str, Sequence[str]]:
    """Return the errors by setting. renamed: whether transforms may rename the topics."""
    mode = settings.string(names.MODE)
    missing = {
        setting: [f"Required: {names.MODE}={mode} reads by this column."]
        for setting in _NEEDS.get(mode, ())
        if not str(settings.get(setting) or "").strip()
    }
    if missing:
        return missing
    query = names.query_of(settings)
    if query and (settings.strings(names.TABLES) or settings.strings(names.TABLES_EXCLUDE)):
        return {names.QUERY: [f"Set either a query or {names.TABLES} and {names.TABLES_EXCLUDE}, not both."]}
    if query and not settings.string(names.PREFIX).strip():
        return {names.PREFIX: ["Required with a query: the whole name of the topic that it is read into."]}
    try:
        database = Database(settings)
        with closing(database.engine().connect()) as connection:
            if query:
                errors = _find_query_errors(database, connection, query, settings)
                topics = [settings.string(names.PREFIX)]
            else:
                tables = list_tables(database, connection, settings)
                errors = _find_table_errors(database, connection, tables, settings)
                topics = [topic_of(settings.string(names.PREFIX), name) for _, name in tables]
    except ConnectorError as error:
        return {names.URL: [str(error)]}
    except sa.exc.SQLAlchemyError as error:
        return {names.URL: [f"The database cannot be read: {explain(error)}."]}
    if errors or renamed:
        return errors
    problem = next(filter(None, map(find_name_error, topics)), None)
    return {names.PREFIX: [problem]} if problem else {}


def _find_query_errors(
    database: Database, connection: Connection, query: str, settings: ParsedConfig
) -> Mapping[str, Sequence[str]]:
    try:
        relation = reflect_query(database, connection, query)
    except sa.exc.SQLAlchemyError as error:
        return {names.QUERY: [f"The database refuses it as a subquery: {explain(error)}."]}
    except ConnectorError as error:
        return {names.QUERY: [str(error)]}
    try:
        MODES[settings.string(names.MODE)](database, relation, settings, database.values())
    except ConnectorError as error:
        return {names.MODE: [str(error)]}
    return {}


def _find_table_errors(
    database: Database, connection: Connection, tables: Sequence[TableName], settings: ParsedConfig
) -> Mapping[str, Sequence[str]]:
    if missing := find_missing(tables, settings):
        return {names.TABLES: [f"There is no table {missing[0]} that this user can see."]}
    if problem := find_topic_error(settings.string(names.PREFIX), tables):
        return {names.PREFIX: [problem]}
    problems, values = [], database.values()
    for table in tables:
        try:
            MODES[settings.string(names.MODE)](database, reflect_table(connection, table), settings, values)
        except ConnectorError as error:
            problems.append(str(error))
    return {names.MODE: problems} if problems else {}


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
