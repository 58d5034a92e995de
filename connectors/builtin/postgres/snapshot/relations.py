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


def find_relation(query: Query, oid: int) -> tuple[Relation, bool] | None:
    """Return the table as it is now, and whether it is partitioned; None if it was dropped."""
    rows = query(_IDENTITY, [oid])
    if not rows:
        return None
    schema, name, kind, identity, parts = rows[0]
    key_columns = set(parts or ())
    columns = tuple(
        RelationColumn(column.name, column.name in key_columns, column.oid, column.typmod)
        for column in read_table(query, oid).columns
        if not column.generated
    )
    return Relation(oid, schema, name, identity, columns), kind == "p"


def find_published(query: Query, publication: str, relation: Relation) -> tuple[Relation, str | None]:
    """Return the table with its published columns, and the publication's row filter (PostgreSQL 15) or None."""
    rows = query(_PUBLISHED, [publication, relation.schema, relation.name])
    if not rows:
        return relation, None
    attributes, condition = rows[0]
    if attributes is not None:
        relation = relation._replace(columns=tuple(one for one in relation.columns if one.name in attributes))
    return relation, condition
