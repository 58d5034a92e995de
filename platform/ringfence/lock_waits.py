"""How long, and how, a database lock is waited for.

SQLite waits for its one lock by looking again, at last every 100 ms. So it misses a lock that is free for some
milliseconds at a time, as while the projection has much to write: it then waits for seconds, or in vain. Here the one
who waits looks every few milliseconds. PostgreSQL has a queue, and no limit.
"""

import sqlite3
import time
from collections.abc import Callable
from typing import Any, Final

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ringfence.environment import REQUEST_BUSY_SECONDS, SQLITE_BUSY_SECONDS

_FIRST_PAUSE: Final = 0.0005
_MOST_PAUSE: Final = 0.004


def look_often() -> None:
    """Have all SQLite connections of this process wait so from now on, as long as their option `timeout` says."""
    connection_created.connect(_prepare, dispatch_uid="ringfence.lock_waits.look_often")


def limit_lock_waits() -> None:
    """Limit them for all PostgreSQL connections of this process from now on: a process that is frozen within a
    transaction must not hold every request that needs the same row. A command of its own, since poolers refuse it as a
    start-up option.
    """
    connection_created.connect(_limit, dispatch_uid="ringfence.lock_waits")


def _prepare(connection: BaseDatabaseWrapper, **_: Any) -> None:
    # They outlive a connection that is closed.
    if connection.vendor == "sqlite" and _execute not in connection.execute_wrappers:
        connection.execute_wrappers.append(_execute)


def _execute(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Execute a statement; again while somebody else holds the lock that it needs to begin."""
    connection: BaseDatabaseWrapper = context["connection"]
    until = time.monotonic() + connection.settings_dict["OPTIONS"].get("timeout", SQLITE_BUSY_SECONDS)
    pause = _FIRST_PAUSE
    while True:
        try:
            return execute(sql, params, many, context)
        except OperationalError as error:
            if not _is_busy(error) or connection.connection.in_transaction or time.monotonic() >= until:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _MOST_PAUSE)


def _is_busy(error: OperationalError) -> bool:
    cause = error.__cause__
    return isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _limit(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{REQUEST_BUSY_SECONDS}s'")
