"""Log levels of a web process: levels set for the whole cluster come from the database (KIP-976).

They are read before requests, at most every two seconds: an idle web process has nothing to log. Levels set before this
process started do not apply to it.
"""

import threading
import time

from django.db import Error as DatabaseError
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

from ringfence.fencing.topics.log_levels import ClusterLevels
from ringfence.projection.models import LogLevel

_PAUSE_SECONDS = 2.0


class _Follower:
    def __init__(self) -> None:
        self._levels = ClusterLevels()
        self._lock = threading.Lock()
        self._due = 0.0

    def look(self, *, now: bool = False) -> None:
        """Apply new levels. now: read regardless of the last time. While the database is away, nothing happens."""
        if not now and time.monotonic() < self._due:
            return
        with self._lock:
            self._due = time.monotonic() + _PAUSE_SECONDS
            try:
                rows = LogLevel.objects.values_list("logger", "config_offset", "level")
                loggers = {logger: (offset, level or None) for logger, offset, level in rows}
            except DatabaseError:
                return
            self._levels.follow(loggers)


follower = _Follower()


class LogLevelMiddleware(MiddlewareMixin):
    """Keeps this process's log levels in line with the cluster's."""

    def process_request(self, request: HttpRequest) -> None:
        follower.look()
