"""Plans a snapshot: divides the captured tables into ranges of about the same size."""

import math
import time
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from psycopg import sql

from ringfence.connectors.builtin.postgres.catalog import read_name
from ringfence.connectors.builtin.postgres.selection import Selection
from ringfence.connectors.builtin.postgres.session import Session
from ringfence.connectors.builtin.postgres.snapshot.plan import Key, Plan, PlannedTable

_MOST_RANGES: Final = 1000
"""The maximum number of ranges of all tables: each has a source offset, and the stream searches their bounds."""
_SAMPLED_PAGES: Final = 30
"""The number of pages to sample for each range. Keys in one page are often adjacent, so fewer pages would not do."""
_PAGE_BYTES: Final = 8192
_MOST_BOUND_BYTES: Final = 100_000
"""The maximum size of one table's bounds, so that a part of the plan fits into a record."""

_PUBLISHED: Final = """
SELECT DISTINCT c.oid::int8, n.nspname, c.relname
FROM pg_publication_tables p
JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s ORDER BY 2, 3
"""
_SIZE: Final = """
SELECT coalesce(sum(CASE WHEN c.reltuples >= 0 THEN c.reltuples
                    ELSE pg_relation_size(c.oid) / 100 END), 0)::int8,
       coalesce(sum(pg_relation_size(c.oid)), 0)::int8
FROM (SELECT relid AS oid FROM pg_partition_tree(%s::oid) WHERE isleaf UNION SELECT %s::oid) t
JOIN pg_class c ON c.oid = t.oid AND c.relkind = 'r'
"""
_KEY: Final = """
SELECT array_agg(a.attname::text ORDER BY k.place)
FROM pg_class c
JOIN pg_index i ON i.indrelid = c.oid
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE c.oid = %s AND k.place <= i.indnkeyatts AND i.indisvalid
  AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END
"""


class TableSize(NamedTuple):
    """A captured table. key: see `PlannedTable`; rows: their estimated number; size: in bytes."""

    oid: int
    schema: str
    name: str
    key: tuple[str, ...]
    rows: int
    size: int


def find_tables(session: Session, publication: str, selection: Selection) -> list[TableSize]:
    """Return the tables that are selected and published: for others, the stream would have no changes."""
    tables = []
    for oid, schema, name in session.query(_PUBLISHED, [publication]):
        if selection.has_table(schema, name):
            tables.append(measure(session, oid, schema, name))
    return tables


def measure(session: Session, oid: int, schema: str, name: str) -> TableSize:
    """Return one table's key and size from the catalog."""
    ((rows, size),) = session.query(_SIZE, [oid, oid])
    ((key,),) = session.query(_KEY, [oid])
    return TableSize(oid, schema, name, tuple(key or ()), rows, size)


def find_keyed(session: Session, oid: int) -> TableSize | None:
    """Return one table's names and key, or None if it was dropped. Without its size: measuring it waits for locks."""
    name = read_name(session.query, oid)
    if name is None:
        return None
    ((key,),) = session.query(_KEY, [oid])
    return TableSize(oid, *name, tuple(key or ()), 0, 0)


def make_plan(session: Session, tables: Sequence[TableSize], range_rows: int) -> Plan:
    """Divide the tables into ranges. range_rows: the approximate number of rows in a range."""
    counts = {table.oid: max(1, math.ceil(table.rows / range_rows)) if table.key else 1 for table in tables}
    total = sum(counts.values())
    if total > _MOST_RANGES:
        room = max(0, _MOST_RANGES - len(tables))
        counts = {oid: 1 + (count - 1) * room // total for oid, count in counts.items()}
    planned = [
        PlannedTable(
            table.oid,
            table.schema,
            table.name,
            table.key,
            find_bounds(session, table, counts[table.oid]),
            table.rows,
        )
        for table in tables
    ]
    return Plan(uuid.uuid4().hex, time.time_ns() // 1_000_000, tuple(planned))


def find_bounds(session: Session, table: TableSize, ranges: int) -> tuple[Key, ...]:
    """Return keys that divide the table into about `ranges` equal ranges, from a sample of its pages."""
    if ranges < 2:
        return ()
    percent = min(100.0, 100.0 * _SAMPLED_PAGES * ranges * _PAGE_BYTES / max(1, table.size))
    columns = sql.SQL(", ").join(map(sql.Identifier, table.key))
    texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(column)) for column in table.key)
    statement = sql.SQL(
        "SELECT {} FROM (SELECT {}, row_number() OVER (ORDER BY {}) AS place, count(*) OVER () AS total "
        "FROM {} TABLESAMPLE SYSTEM ({})) s WHERE place %% greatest(1, total / {}) = 0 ORDER BY place"
    ).format(
        texts,
        columns,
        columns,
        sql.Identifier(table.schema, table.name),
        sql.Literal(percent),
        sql.Literal(ranges),
    )
    rows = session.query(statement.as_string(session.connection).replace("%%", "%"))
    key_bounds = list(dict.fromkeys(tuple(map(str, row)) for row in rows))[: ranges - 1]
    while sum(len(value) for bound in key_bounds for value in bound) > _MOST_BOUND_BYTES:
        key_bounds = key_bounds[1::2]
    return tuple(key_bounds)
