"""Compares keys in the database's order: in Python if it compares the type in the same way, else by a query."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from psycopg import sql

from ringfence.connectors.builtin.postgres.catalog import Query
from ringfence.connectors.builtin.postgres.snapshot.plan import Key, PlannedTable

_REMEMBERED: Final = 50_000


class KeyOrder(Protocol):
    """The order of one table's keys, with some of them as ascending bounds."""

    def count_below(self, key: Key) -> int:
        """Return how many of the bounds are less than the key."""
        ...


class PythonOrder:
    """Compares types that Python orders as PostgreSQL does."""

    def __init__(self, bounds: Sequence[Key], readers: Sequence[Callable[[str], Any]]) -> None:
        self._readers = readers
        self._bounds = [self._read(bound) for bound in bounds]

    def _read(self, key: Key) -> tuple[Any, ...]:
        return tuple(read(value) for read, value in zip(self._readers, key, strict=True))

    def count_below(self, key: Key) -> int:
        return bisect_left(self._bounds, self._read(key))


class AskedOrder:
    """Lets the server compare all other types, with the column's type and collation. It caches the results."""

    def __init__(self, query: Query, statement: str, bounds: Sequence[Key]) -> None:
        columns = [list(column) for column in zip(*bounds, strict=True)]
        self.count_below = lru_cache(_REMEMBERED)(lambda key: int(query(statement, [*columns, *key])[0][0]))


_COLUMNS: Final = """
SELECT a.attname, t.typname, format_type(a.atttypid, a.atttypmod),
       CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN
         (SELECT format('%%I.%%I', n.nspname, c.collname)
          FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = a.attcollation) END,
       a.attcollation IN (950, 951) OR (a.attcollation = 100 AND d.datcollate IN ('C', 'POSIX')
         AND coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'c')
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_database d ON d.datname = current_database()
WHERE a.attrelid = %s AND a.attname = ANY(%s)
"""
_NUMBERS: Final = frozenset({"int2", "int4", "int8", "oid"})
_BYTEWISE: Final = frozenset({"uuid", "bytea"})
_TEXTS: Final = frozenset({"text", "varchar"})


def order_of(query: Query, table: PlannedTable, bounds: Sequence[Key]) -> KeyOrder:
    """Return the order of the table's keys. bounds: ascending."""
    columns = {str(name): row for name, *row in query(_COLUMNS, [table.oid, list(table.key)])}
    if not bounds:
        return PythonOrder((), ())
    readers = [_reader(*columns[column]) for column in table.key if column in columns]
    if len(readers) == len(table.key) and None not in readers:
        return PythonOrder(bounds, [read for read in readers if read is not None])
    types = [columns.get(column, ["", "text", None, False]) for column in table.key]
    return AskedOrder(query, _statement([(str(row[1]), row[2]) for row in types]), bounds)


def _reader(type_: str, _name: str, _collation: str | None, plain: bool) -> Callable[[str], Any] | None:
    if type_ in _NUMBERS:
        return int
    if type_ in _BYTEWISE:
        return str
    return str.encode if type_ in _TEXTS and plain else None


def _statement(types: Sequence[tuple[str, str | None]]) -> str:
    """Return the query. types: types and collations from the catalog, quoted by the server."""

    def column_of(what: str, type_: str, collation: str | None) -> str:
        return f"{what}::{type_}" + (f" COLLATE {collation}" if collation else "")

    names = ", ".join(f"c{number}" for number in range(len(types)))
    bounds = ", ".join(column_of(f"c{number}", *one) for number, one in enumerate(types))
    row_values = ", ".join(column_of("%s::text", *one) for one in types)
    arrays = ", ".join("%s::text[]" for _ in types)
    return f"SELECT count(*) FROM unnest({arrays}) AS b({names}) WHERE ROW({bounds}) < ROW({row_values})"  # noqa: S608


def keys_between(key: Sequence[str], lower: Key | None, upper: Key | None) -> sql.Composed:
    """Return the SQL condition for rows after `lower` and up to `upper`, in the server's order."""
    columns = sql.SQL(", ").join(map(sql.Identifier, key))
    parts: list[sql.Composable] = [
        sql.SQL("ROW({}) {} ROW({})").format(columns, sql.SQL(sign), sql.SQL(", ").join(map(sql.Literal, bound)))
        for sign, bound in ((">", lower), ("<=", upper))
        if bound is not None
    ]
    return sql.SQL(" AND ").join(parts or [sql.SQL("true")])
