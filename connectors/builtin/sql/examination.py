"""Asks the database before the connector starts: whether it is reached and what is wrong with a configuration, which
tables and columns a form can offer, and how its tables can be read.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import Choice, ConfigException, ConnectorError, Examination, ParsedConfig
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import DEFAULT_LOGIN, Database, Login, explain
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
from ringfence.connectors.sdk.diagnosis import Cause, diagnose, summarise

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
        names.INCREMENTING: _common_columns(relations, sa.Integer),
        names.TIMESTAMP: _common_columns(relations, sa.DateTime),
    }


def _common_columns(relations: Sequence[Relation], kind: "type[sa.types.TypeEngine[Any]]") -> Sequence[Choice]:
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


_REACHES: Final = (names.URL, names.USER, names.PASSWORD, names.SCHEMA, names.TABLES, names.TABLES_EXCLUDE)
_PRODUCTS: Final = {"postgresql": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB", "sqlite": "SQLite"}


def examine(config: Mapping[str, str]) -> Examination:
    """Return the tables that the database shows, or why it does not."""
    if not config.get(names.URL, "").strip():
        return Examination({names.URL: ["Say where the database is."]})
    reaches = {name: config[name] for name in _REACHES if name in config}
    try:
        settings = names.CONFIG_DEF.parse({names.MODE: names.BULK, names.PREFIX: "", **reaches})
        database = Database(settings)
        with closing(database.engine().connect()) as connection:
            tables = list_tables(database, connection, settings)
            if not tables:
                return Examination({names.TABLES: ["This user sees none of these tables in the database."]})
            proposals = propose(database, connection, tables)
    except (ConfigException, ConnectorError) as error:
        return Examination({names.URL: [str(error).removeprefix(f"{names.URL}: ")]})
    except sa.exc.SQLAlchemyError as error:
        return describe_failure(error)
    return Examination(summary=summarise_tables(database, [table for _, table in tables]), proposals=proposals)


def describe_failure(error: sa.exc.SQLAlchemyError, login: Login = DEFAULT_LOGIN) -> Examination:
    """Return why the database cannot be read, at the setting to correct."""
    diagnosis = diagnose(error, "the database server")
    explanation = explain(error)
    if diagnosis is None:
        return Examination({login.url: [f"The database cannot be read: {explanation}."]})
    setting = login.user if diagnosis.cause in (Cause.LOGIN, Cause.PERMISSION) else login.url
    return Examination({setting: [f"{diagnosis.text} It says: {explanation}"]})


def summarise_tables(database: Database, tables: Sequence[str]) -> str:
    """Return the product and its tables in a sentence."""
    return f"{_PRODUCTS.get(database.kind, database.kind)}, {summarise('table', tables)}."


def propose(database: Database, connection: Connection, tables: Sequence[TableName]) -> dict[str, str]:
    """Return the mode with which no row of these tables is missed, as far as that can be told from their columns."""
    if database.kind == "postgresql":
        return {names.MODE: names.XMIN}
    relations = [reflect_table(connection, table) for table in tables[:_LOOKED_AT]]
    numbers = _common_name([_keys(each) for each in relations])
    times = _common_name([_times(each) for each in relations])
    if times and numbers:
        return {names.MODE: names.BOTH_MODE, names.TIMESTAMP: times, names.INCREMENTING: numbers}
    if numbers:
        return {names.MODE: names.INCREMENTING_MODE, names.INCREMENTING: numbers}
    return {names.MODE: names.TIMESTAMP_MODE, names.TIMESTAMP: times} if times else {}


def _keys(table: sa.Table) -> list[str]:
    """Return the primary key, if it is one integer."""
    columns = list(table.primary_key.columns)
    return [columns[0].name] if len(columns) == 1 and isinstance(columns[0].type, sa.Integer) else []


def _times(table: sa.Table) -> list[str]:
    """Return the columns that say when a row was changed."""
    columns: list[sa.Column[Any]] = [each for each in table.columns if isinstance(each.type, sa.DateTime)]
    return [
        each.name for each in columns if not each.nullable and each.name.lower().startswith(("updated", "modified"))
    ]


def _common_name(columns: Sequence[Sequence[str]]) -> str:
    """Return the first name that all tables have; "" if there is none."""
    first, *others = columns
    return next((name for name in first if all(name in each for each in others)), "")
