"""Describes a table from the catalog as the stream would describe it."""

from typing import Final

from ringfence.connectors.builtin.postgres.catalog import Query, read_table
from ringfence.connectors.builtin.postgres.pgoutput import Relation, RelationColumn

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
_PUBLISHED: Final = """
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
    rows = query(_PUBLISHED, [publication, relation.schema, relation.name])
    attributes, condition = rows[0] if rows else (None, None)
    left_out = {
        name for name, publishable in query(_GENERATED, [relation.oid]) if attributes is None or not publishable
    }
    columns = tuple(
        one for one in relation.columns if one.name not in left_out and (attributes is None or one.name in attributes)
    )
    return relation._replace(columns=columns), condition
