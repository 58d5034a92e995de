"""Reads from the catalog what the replication stream does not contain about tables and types, and describes a table
as the stream would describe it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ringfence.connectors.builtin.postgres.pgoutput import Relation, RelationColumn
from ringfence.connectors.builtin.postgres.types import PgType

logger = logging.getLogger(__name__)


Query = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""`(statement, parameters) -> rows`: runs one statement and returns all its rows."""


class CatalogColumn(NamedTuple):
    """A column. default: the SQL expression; dimensions: those declared for an array; generated: in the stream only if
    the publication has stored ones."""

    name: str
    oid: int
    typmod: int
    required: bool
    default: str | None
    dimensions: int
    generated: bool


class CatalogTable(NamedTuple):
    """A table. key: the columns of the primary key, or else of the first unique index, in the index's order."""

    columns: tuple[CatalogColumn, ...]
    key: tuple[str, ...]


_COLUMNS: Final = """
SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attndims,
       a.attgenerated <> ''
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_KEY: Final = """
SELECT array_agg(a.attname::text ORDER BY k.place)
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indisprimary
ORDER BY i.indisprimary DESC, i.indexrelid
LIMIT 1
"""
_TYPE: Final = """
SELECT t.oid::int8, t.typname, t.typtype, t.typbasetype::int8, t.typtypmod, t.typelem::int8,
       array(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
       t.typdelim::text
FROM pg_type t WHERE t.oid = %s
"""
_NAME: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""


def read_name(query: Query, oid: int) -> tuple[str, str] | None:
    """Return a table's schema and name, or None if it was dropped."""
    rows = query(_NAME, [oid])
    return (str(rows[0][0]), str(rows[0][1])) if rows else None


def read_table(query: Query, oid: int) -> CatalogTable:
    """Return the table as it is now, without columns if it was dropped."""
    columns = tuple(CatalogColumn(*row) for row in query(_COLUMNS, [oid]))
    keys = query(_KEY, [oid])
    return CatalogTable(columns, tuple(keys[0][0]) if keys else ())


def read_type(query: Query, oid: int) -> PgType:
    """Return a type. One that was dropped is read as text: earlier changes may still contain it."""
    rows = query(_TYPE, [oid])
    if not rows:
        logger.warning("The type with the oid %d is no longer in the database: its values are read as text", oid)
        return PgType(oid, "text", "b", 0, -1, 0, (), ",")
    type_oid, name, kind, base, base_typmod, element, labels, delimiter = rows[0]
    return PgType(type_oid, name, kind, base, base_typmod, element, tuple(labels), delimiter)


_IDENTITY: Final = """
SELECT n.nspname, c.relname, c.relkind, c.relreplident,
       CASE WHEN c.relreplident = 'f' THEN (SELECT array_agg(a.attname::text) FROM pg_attribute a
                                            WHERE a.attrelid = c.oid AND a.attnum > 0)
       ELSE (SELECT array_agg(a.attname::text) FROM pg_index i
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
             WHERE i.indrelid = c.oid
               AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""
_PUBLISHED_COLUMNS: Final = """
SELECT to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter'
FROM pg_publication_tables p WHERE p.pubname = %s AND p.schemaname = %s AND p.tablename = %s
"""
_GENERATED: Final = """
SELECT a.attname::text, a.attgenerated = 's' AND current_setting('server_version_num')::int >= 180000
FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND a.attgenerated <> ''
"""
"""The generated columns, and whether the server can publish them."""


def find_relation(query: Query, oid: int) -> tuple[Relation, bool] | None:
    """Return the table as it is now, with generated columns, and whether it is partitioned; None if it was dropped."""
    rows = query(_IDENTITY, [oid])
    if not rows:
        return None
    schema, name, kind, identity, parts = rows[0]
    key_columns = set(parts or ())
    columns = tuple(
        RelationColumn(column.name, column.name in key_columns, column.oid, column.typmod)
        for column in read_table(query, oid).columns
    )
    return Relation(oid, schema, name, identity, columns), kind == "p"


def find_published(query: Query, publication: str, relation: Relation) -> tuple[Relation, str | None]:
    """Return the table with its published columns, and the publication's row filter (PostgreSQL 15) or None.

    Generated columns are published from PostgreSQL 18 on, if the publication says so.
    """
    rows = query(_PUBLISHED_COLUMNS, [publication, relation.schema, relation.name])
    attributes, condition = rows[0] if rows else (None, None)
    left_out = {
        name for name, publishable in query(_GENERATED, [relation.oid]) if attributes is None or not publishable
    }
    columns = tuple(
        one for one in relation.columns if one.name not in left_out and (attributes is None or one.name in attributes)
    )
    return relation._replace(columns=columns), condition
