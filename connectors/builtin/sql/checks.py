"""Validates a configuration against the database."""

from collections.abc import Mapping, Sequence
from contextlib import closing

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ConnectorError, ParsedConfig
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database, explain
from ringfence.connectors.builtin.sql.modes import MODES
from ringfence.connectors.builtin.sql.queries import reflect_query
from ringfence.connectors.builtin.sql.tables import (
    TableName,
    find_missing,
    find_name_error,
    find_topic_error,
    list_tables,
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
