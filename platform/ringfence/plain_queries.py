"""Statements in SQL, for what each request asks and what the projection writes: Django takes ten times as long to make
such a statement as the database to execute it, inside the transaction for whose end others wait.

SQL comes from our code, never from a user; values are apart, each for a `%s`. Only for models whose values need no
conversion: text, numbers and booleans.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import AutoField, BooleanField, Model

M = TypeVar("M", bound=Model)


def select(model: type[Model], columns: str, condition: str, *values: str | int) -> list[tuple[Any, ...]]:
    """Return these columns of the rows that meet the condition, as the database gives them: a boolean may be an
    integer.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {model._meta.db_table} WHERE {condition}", values)  # noqa: S608
        return list(cursor.fetchall())


def read(model: type[M], condition: str, *values: str | int) -> list[M]:
    """Return the rows that meet the condition."""
    names, columns, flags = _columns_of(model)
    rows = []
    for row in select(model, columns, condition, *values):
        fields = list(row)
        for number in flags:
            fields[number] = bool(fields[number])
        rows.append(model.from_db(DEFAULT_DB_ALIAS, names, fields))
    return rows


def among(column: str, values: Collection[object]) -> str:
    """Return the condition that the column has one of these values. Without any, no row meets it."""
    # PostgreSQL refuses an empty list, which SQLite accepts.
    return f"{column} IN ({', '.join(['%s'] * len(values))})" if values else "1 = 0"


def update(model: type[Model], changes: str, condition: str, *values: str | int) -> int:
    """Change the rows that meet the condition, and return how many. values: of the changes, then of the condition."""
    return _execute(f"UPDATE {model._meta.db_table} SET {changes} WHERE {condition}", values)  # noqa: S608


def update_each(model: type[Model], changes: str, condition: str, values: Sequence[Sequence[str | int]]) -> None:
    """Do it with each of these values."""
    if values:
        with connection.cursor() as cursor:
            cursor.executemany(f"UPDATE {model._meta.db_table} SET {changes} WHERE {condition}", values)  # noqa: S608


def delete(model: type[Model], condition: str, *values: str | int) -> int:
    """Delete the rows that meet the condition, and return how many."""
    return _execute(f"DELETE FROM {model._meta.db_table} WHERE {condition}", values)  # noqa: S608


def _execute(sql: str, values: Sequence[str | int]) -> int:
    """Return how many rows the statement met."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return int(cursor.rowcount)


def insert(rows: Iterable[Model]) -> None:
    """Insert rows of one model. The database numbers them."""
    upsert(list(rows), (), ())


def upsert(rows: Sequence[Model], update_fields: Sequence[str], unique_fields: Sequence[str]) -> None:
    """Insert rows of one model; of a row that is there, update these fields. The database numbers them."""
    if rows:
        sql, take_values = _upsert_of(type(rows[0]), tuple(update_fields), tuple(unique_fields))
        with connection.cursor() as cursor:
            cursor.executemany(sql, [take_values(row) for row in rows])


@cache
def _columns_of(model: type[Model]) -> tuple[list[str], str, list[int]]:
    """Return the names of the model's fields, their columns, and which of them are booleans."""
    fields = model._meta.concrete_fields
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    flags = [number for number, field in enumerate(fields) if isinstance(field, BooleanField)]
    return [field.attname for field in fields], columns, flags


@cache
def _upsert_of(
    model: type[Model], update_fields: tuple[str, ...], unique_fields: tuple[str, ...]
) -> tuple[str, Callable[[Model], tuple[Any, ...]]]:
    """Return the statement, and what takes its values from a row."""
    quote, meta = connection.ops.quote_name, model._meta
    columns = {
        each.attname: quote(str(each.column)) for each in meta.concrete_fields if not isinstance(each, AutoField)
    }
    sql = (
        f"INSERT INTO {quote(meta.db_table)} ({', '.join(columns.values())}) "  # noqa: S608
        f"VALUES ({', '.join(['%s'] * len(columns))})"
    )
    if unique_fields:
        changes = ", ".join(f"{columns[name]} = excluded.{columns[name]}" for name in update_fields)
        sql += f" ON CONFLICT ({', '.join(columns[name] for name in unique_fields)}) DO UPDATE SET {changes}"
    return sql, attrgetter(*columns)
