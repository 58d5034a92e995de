"""The backend: a connection is kept only while it is as good as a new one.

Opening a connection, and closing it, takes as long as several queries. Three things make a kept one differ from a new
one. It does not notice that its file was removed or replaced. A cursor that was left half read holds an old state of
the rows, which a permission check must never read. And its pages stay in memory, in each thread. So Django's health
check, at the first query of a request, compares the file and looks for cursors, and the pages are freed after each
request.
"""

import os
import weakref
from typing import Any

from django.db.backends.sqlite3 import base

_Cursors = weakref.WeakSet[Any]


class DatabaseWrapper(base.DatabaseWrapper):
    """Keeps a connection as long as `CONN_MAX_AGE` says, with `CONN_HEALTH_CHECKS`."""

    _file: tuple[int, int] | None = None
    _cursors: _Cursors

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        self._file, self._cursors = self._find_file(), _Cursors()
        return connection

    def create_cursor(self, name: str | None = None) -> Any:
        cursor = super().create_cursor(name)
        self._cursors.add(cursor)
        return cursor

    def is_usable(self) -> bool:
        """Return whether it is still as good as a new connection."""
        return not self._cursors and self._file == self._find_file()

    def close_if_unusable_or_obsolete(self) -> None:
        super().close_if_unusable_or_obsolete()
        if self.connection is not None:
            self.connection.execute("PRAGMA shrink_memory").close()

    def _find_file(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.settings_dict["NAME"])
        except OSError:
            return None
        return status.st_dev, status.st_ino
