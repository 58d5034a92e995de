"""Choices for the form: the database's tables, and the columns that can divide a table."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final

import sqlalchemy as sa

from ringfence.connectors.api import Choice, ParsedConfig
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.jdbc_table import DIVISIBLE, LOGIN, kind_of
from ringfence.connectors.builtin.sql.database import Database

MOST: Final = 500
"""The maximum number of tables to offer, from the user's own schema."""


def list_choices(settings: ParsedConfig) -> Mapping[str, Sequence[Choice]]:
    """Return choices for `dbtable`, and for `partitionColumn` if that names a table."""
    with closing(Database(settings, LOGIN).engine().connect()) as connection:
        choices = {names.DBTABLE: [Choice(name) for name in sorted(sa.inspect(connection).get_table_names())[:MOST]]}
        if table_name := str(settings.get(names.DBTABLE) or "").strip():
            schema, _, name = table_name.rpartition(".")
            table = sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=connection, resolve_fks=False)
            choices[names.COLUMN] = [
                Choice(str(one.name), str(one.type).lower())
                for one in table.columns
                if not one.nullable and kind_of(one) in DIVISIBLE
            ]
    return choices
