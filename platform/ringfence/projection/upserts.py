"""Inserts wide rows, or updates those that are there, many times as fast as `bulk_create`.

Django compiles each value of each row, inside the transaction for whose end others wait. Here, the driver gets the
values as they are.
"""

from collections.abc import Sequence

from django.db import connection, models


def upsert(rows: Sequence[models.Model], update_fields: Sequence[str], unique_fields: Sequence[str]) -> None:
    """Insert rows of one model without their ids; of a row that is there, update these fields. Inside the transaction.

    Only for models whose values need no conversion: text, numbers and booleans.
    """
    if not rows:
        return
    quote, meta = connection.ops.quote_name, rows[0]._meta
    names = [each.attname for each in meta.concrete_fields if not each.primary_key]
    columns = {each.attname: quote(each.column or each.attname) for each in meta.concrete_fields}
    changes = ", ".join(f"{columns[name]} = excluded.{columns[name]}" for name in update_fields)
    sql = (
        f"INSERT INTO {quote(meta.db_table)} ({', '.join(columns[name] for name in names)}) "  # noqa: S608 - names of models
        f"VALUES ({', '.join(['%s'] * len(names))}) "
        f"ON CONFLICT ({', '.join(columns[name] for name in unique_fields)}) DO UPDATE SET {changes}"
    )
    with connection.cursor() as cursor:
        cursor.executemany(sql, [[getattr(row, name) for name in names] for row in rows])
