"""Queries in SQL, for what each request asks: Django takes ten times as long to make such a query as the database to
answer it.
"""

from typing import Any

from django.db import connection
from django.db.models import Model


def select(model: type[Model], columns: str, condition: str, *values: str | int) -> list[tuple[Any, ...]]:
    """Return these columns of the rows that meet the condition, which has a `%s` for each value, as the database gives
    them: a boolean may be an integer. columns, condition: SQL of ours, never of a user.
    """
    sql = f"SELECT {columns} FROM {model._meta.db_table} WHERE {condition}"  # noqa: S608 - values are apart
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())
