"""What is wrong with a configuration, found by looking at the database."""

from collections.abc import Mapping, Sequence
from contextlib import closing

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ConnectorError, ParsedConfig
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database, explain
from ringfence.connectors.builtin.sql.modes import MODES
from ringfence.connectors.builtin.sql.tables import find_missing, list_tables

_NEEDS = {
    names.INCREMENTING_MODE: (names.INCREMENTING,),
    names.TIMESTAMP_MODE: (names.TIMESTAMP,),
    names.BOTH_MODE: (names.TIMESTAMP, names.INCREMENTING),
}


def find_errors(parsed: ParsedConfig) -> Mapping[str, Sequence[str]]:
    """By setting."""
    mode = parsed.string(names.MODE)
    missing = {
        setting: [f"Set it: {names.MODE}={mode} reads by this column."]
        for setting in _NEEDS.get(mode, ())
        if not str(parsed.get(setting) or "").strip()
    }
    if missing:
        return missing
    try:
        database = Database(parsed)
        with closing(database.engine().connect()) as connection:
            return _find_table_errors(database, connection, parsed)
    except ConnectorError as error:
        return {names.URL: [str(error)]}
    except sa.exc.SQLAlchemyError as error:
        return {names.URL: [f"The database cannot be read: {explain(error)}."]}


def _find_table_errors(database: Database, connection: Connection, parsed: ParsedConfig) -> Mapping[str, Sequence[str]]:
    tables = list_tables(database, connection, parsed)
    if missing := find_missing(tables, parsed):
        return {names.TABLES: [f"There is no table {missing[0]} that this user can see."]}
    problems = []
    for schema, name in tables:
        table = sa.Table(name, sa.MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)
        try:
            MODES[parsed.string(names.MODE)](database, table, parsed)
        except ConnectorError as error:
            problems.append(str(error))
    return {names.MODE: problems} if problems else {}
