"""The schemas and tables that a configuration may choose from, with what helps to choose: sizes, keys, identities."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.connectors.api import Choice
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.session import Session

MOST: Final = 500
"""Tables that are offered, the largest first."""

_TABLES: Final = """
SELECT n.nspname, c.relname, c.reltuples::int8, pg_total_relation_size(c.oid), c.relreplident::text,
       (SELECT string_agg(a.attname, ', ' ORDER BY k.place)
        FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 4 DESC, 1, 2 LIMIT %s
"""
_SCHEMAS: Final = """
SELECT n.nspname, count(*), sum(pg_total_relation_size(c.oid))::int8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
GROUP BY 1 ORDER BY 1
"""


def list_choices(session: Session) -> Mapping[str, Sequence[Choice]]:
    """For the settings that take schemas and tables."""
    schemas = [
        Choice(pattern(schema), f"{count:,} table{'s' if count != 1 else ''}, {_size(size)}")
        for schema, count, size in session.query(_SCHEMAS)
    ]
    tables = [
        Choice(pattern(f"{schema}.{table}"), _describe(rows, size, identity, key))
        for schema, table, rows, size, identity, key in session.query(_TABLES, [MOST])
    ]
    return {
        names.SCHEMAS: schemas,
        names.SCHEMAS_EXCLUDE: schemas,
        names.TABLES: tables,
        names.TABLES_EXCLUDE: tables,
    }


def pattern(name: str) -> str:
    """The regular expression for exactly this name; a plain one stays readable. A comma would end it in a list."""
    return name if re.fullmatch(r"[\w.]+", name) else re.escape(name).replace(",", ".")


def _describe(rows: int, size: int, identity: str, key: str | None) -> str:
    counted = f"about {rows:,} rows" if rows >= 0 else "rows not counted yet"
    keyed = f"key {key}" if key else "no primary key"
    told = {"f": ", replica identity FULL", "n": ", no replica identity", "i": ", replica identity by index"}
    return f"{counted}, {_size(size)}, {keyed}{told.get(identity, '')}"


def _size(number: int) -> str:
    for unit, power in (("GB", 30), ("MB", 20)):
        if number >= 1 << power:
            return f"{number / (1 << power):,.1f} {unit}"
    return f"{number >> 10:,} kB"
