"""Bounds how long a request waits for another process's lock in PostgreSQL; SQLite's file has a limit of its own."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ringfence.environment import REQUEST_BUSY_SECONDS


def limit_lock_waits() -> None:
    """Limit them for all connections of this process from now on: a process that is frozen within a transaction must
    not hold every request that needs the same row. A command of its own, since poolers refuse it as a start-up option.
    """
    connection_created.connect(_limit, dispatch_uid="ringfence.lock_waits")


def _limit(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{REQUEST_BUSY_SECONDS}s'")
