"""Tests the connection to a database, and proposes how its tables can be read."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ConfigException, ConnectorError, Examination
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import DEFAULT_LOGIN, Database, Login, explain
from ringfence.connectors.builtin.sql.tables import TableName, list_tables, reflect_table
from ringfence.connectors.sdk.diagnosis import Cause, diagnose, summarise

_REACHES: Final = (names.URL, names.USER, names.PASSWORD, names.SCHEMA, names.TABLES, names.TABLES_EXCLUDE)
_LOOKED_AT: Final = 20
"""The maximum number of tables whose columns are compared."""
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
    numbers = _common([_keys(each) for each in relations])
    times = _common([_times(each) for each in relations])
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


def _common(columns: Sequence[Sequence[str]]) -> str:
    """Return the first name that all tables have; "" if there is none."""
    first, *others = columns
    return next((name for name in first if all(name in each for each in others)), "")
