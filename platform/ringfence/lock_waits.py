"""How long, and how, a database lock is waited for.

SQLite waits for its one lock by looking again, at last every 100 ms. So it misses a lock that is free for some
milliseconds at a time, as while the projection has much to write: it then waits for seconds, or in vain. Here the one
who waits looks every few milliseconds. PostgreSQL has a queue, and no limit.

Whoever waits says so to the other processes, by a shared lock on a file beside the database. What has much to write
looks there before each transaction, and leaves those who wait the first turn (`give_way`), for a moment at most: that
lock is only a hint, so a process that is frozen while it waits holds nobody.
"""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ringfence.environment import REQUEST_BUSY_SECONDS, SQLITE_BUSY_SECONDS

_FIRST_PAUSE: Final = 0.0005
_MOST_PAUSE: Final = 0.004
_TURN_SECONDS: Final = 0.1
"""What is left at most to those who wait."""


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
    try:
        return execute(sql, params, many, context)
    except OperationalError as error:
        if not _can_wait(error, connection, until):
            raise
    with _waiting_room(connection).stay():
        pause = _FIRST_PAUSE
        while True:
            time.sleep(pause)
            pause = min(2 * pause, _MOST_PAUSE)
            try:
                return execute(sql, params, many, context)
            except OperationalError as error:
                if not _can_wait(error, connection, until):
                    raise


def _can_wait(error: OperationalError, connection: BaseDatabaseWrapper, until: float) -> bool:
    return _is_busy(error) and not connection.connection.in_transaction and time.monotonic() < until


def _is_busy(error: OperationalError) -> bool:
    cause = error.__cause__
    return isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


class WaitingRoom:
    """Of one database: who waits for its lock, in all processes. Thread-safe.

    The threads of a process share its lock on the file, which the kernel releases if the process ends. Without such a
    file, nobody of other processes is seen.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._here = 0
        self._files: list[int] = []
        """To wait, and to look."""

    @contextmanager
    def stay(self) -> Iterator[None]:
        """Be seen to wait within the block."""
        with self._guard:
            self._here += 1
            if self._here == 1:
                self._lock(0, fcntl.LOCK_SH)
        try:
            yield
        finally:
            with self._guard:
                self._here -= 1
                if not self._here:
                    self._lock(0, fcntl.LOCK_UN)

    def is_empty(self) -> bool:
        """Return whether nobody waits."""
        with self._guard:
            if self._here:
                return False
            empty = self._lock(1, fcntl.LOCK_EX)
            self._lock(1, fcntl.LOCK_UN)
            return empty

    def _lock(self, which: int, how: int) -> bool:
        """Return False if somebody else has locked it."""
        try:
            while len(self._files) < 2:
                self._files.append(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            fcntl.flock(self._files[which], how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without such locks
            return True
        return True


_rooms: dict[str, WaitingRoom] = {}


def _waiting_room(connection: BaseDatabaseWrapper) -> WaitingRoom:
    path = f"{connection.settings_dict['NAME']}-waiting"
    return _rooms.setdefault(path, WaitingRoom(path))


def give_way(connection: BaseDatabaseWrapper) -> None:
    """Leave those who wait for the lock the first turn, before one of many transactions."""
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return
    room, until = _waiting_room(connection), time.monotonic() + _TURN_SECONDS
    while not room.is_empty() and time.monotonic() < until:
        time.sleep(_FIRST_PAUSE)


def _limit(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{REQUEST_BUSY_SECONDS}s'")
