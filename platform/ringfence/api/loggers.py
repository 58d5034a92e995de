"""`/admin/loggers`: log levels of running processes (KIP-495, KIP-976).

`scope=worker`, the default, concerns the process that answers: the web process. `scope=cluster` concerns all web
processes, all workers and their tasks. A level lasts as long as its process.

A web process reads the cluster's levels from the database before requests, at most every two seconds: an idle one has
nothing to log. Levels set before it started do not apply to it.
"""

import threading
import time
from typing import Any

from django.db import Error as DatabaseError
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import everywhere, somewhere
from ringfence.access.principal import Verb
from ringfence.api.base import ConnectView, object_of, text_of
from ringfence.engine.leader.commands import SetLogLevel
from ringfence.fencing.errors import Invalid
from ringfence.fencing.topics import log_levels
from ringfence.fencing.topics.log_levels import ClusterLevels, LoggerLevel
from ringfence.http.errors import bad_request, not_found
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


def _body(level: LoggerLevel) -> dict[str, Any]:
    return {"level": level.level, "last_modified": level.last_modified}


class Loggers(ConnectView):
    access = {"GET": somewhere(Verb.VIEW)}

    def get(self, request: Request) -> Response:
        return Response({name: _body(level) for name, level in log_levels.levels().items()})


class Logger(ConnectView):
    access = {"GET": somewhere(Verb.VIEW), "PUT": everywhere(Verb.ADMIN).writing()}

    def get(self, request: Request, name: str) -> Response:
        level = log_levels.level_of(name)
        if level is None:
            raise not_found(f"Logger {name} not found.")
        return Response(_body(level))

    def put(self, request: Request, name: str) -> Response:
        value = object_of(self.json_body(), "The request body").get("level")
        if value is None:
            raise bad_request("Desired 'level' parameter was not specified in request.")
        try:
            level = log_levels.parse_level(text_of(value, "level"))
        except Invalid as error:
            raise not_found(str(error)) from error
        try:
            log_levels.check(name, level)
        except Invalid as error:
            raise bad_request(str(error)) from error
        before = log_levels.level_of(name)
        self.tell(before={name: before.level if before else None}, after={name: level})
        if request.query_params.get("scope", "").lower() == "cluster":
            follower.look(now=True)  # so that this process has a known position, which the new level follows
            dispatch.command(SetLogLevel(name, level), user=self.user_name)
            follower.look(now=True)
            return Response(status=204)
        return Response(log_levels.set_level(name, level))
