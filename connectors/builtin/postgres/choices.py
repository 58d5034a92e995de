"""Lists the schemas and tables that you can choose from, with their sizes, keys and replica identities."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.connectors.api import Choice
from ringfence.connectors.builtin.postgres import setting_names as names
from ringfence.connectors.builtin.postgres.selection import Selection
from ringfence.connectors.builtin.postgres.session import Session

MOST: Final = 500
"""The maximum number of tables in the list, which starts with the largest."""

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
_ROWS: Final = """
SELECT n.nspname, c.relname, CASE WHEN c.reltuples >= 0 THEN c.reltuples ELSE pg_relation_size(c.oid) / 100 END::int8,
       pg_relation_size(c.oid),
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid
               AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'p'
"""


def list_choices(session: Session) -> Mapping[str, Sequence[Choice]]:
    """Return the choices by setting, for the lists of schemas and tables."""
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


def describe_snapshot(session: Session, selection: Selection) -> Sequence[Choice]:
    """Return the choices for `snapshot.mode`, with what each mode would read now."""
    rows_found = [row for row in session.query(_ROWS) if selection.has_table(row[0], row[1])]
    rows, size = sum(row[2] for row in rows_found), sum(row[3] for row in rows_found)
    keyless = sum(not row[4] for row in rows_found)
    what = f"{len(rows_found):,} table{'s' if len(rows_found) != 1 else ''}, about {rows:,} rows, {_size(size)}"
    if keyless:
        what += f"; {keyless:,} without a key, each read in one transaction"
    return [
        Choice(names.INITIAL, f"first {what}; then changes"),
        Choice(names.INITIAL_ONLY, f"{what}; no changes"),
        Choice(names.WHEN_NEEDED, f"first {what}; then changes; the rows again if changes were lost"),
        Choice(names.NO_DATA, "no rows; only changes from now on"),
    ]


def pattern(name: str) -> str:
    """Return a regular expression for exactly this name. A comma becomes a dot, since it would end the list's item."""
    return name if re.fullmatch(r"[\w.]+", name) else re.escape(name).replace(",", ".")


def _describe(rows: int, size: int, identity: str, key: str | None) -> str:
    text = f"about {rows:,} rows" if rows >= 0 else "rows not counted yet"
    keyed = f"key {key}" if key else "no primary key"
    identities = {"f": ", replica identity FULL", "n": ", no replica identity", "i": ", replica identity by index"}
    return f"{text}, {_size(size)}, {keyed}{identities.get(identity, '')}"


def _size(number: int) -> str:
    for unit, power in (("GB", 30), ("MB", 20)):
        if number >= 1 << power:
            return f"{number / (1 << power):,.1f} {unit}"
    return f"{number >> 10:,} kB"
