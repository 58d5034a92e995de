"""`…/logs`: log lines of a connector's tasks, and of workers about it; `…/log-level`: its log level, temporarily."""

import time
from collections.abc import Iterable
from typing import Any

from django.db.models import Q, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence import dispatch
from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api import connector_reads
from ringfence.api.v1.base import Filter, ListView, V1View, contains, equal, number, since, until
from ringfence.api.v1.request_fields import IntegerField, OneOfField, RequestShape
from ringfence.engine.leader.commands import SetConnectorLogLevel
from ringfence.fencing.clock import epoch_ms
from ringfence.fencing.topics.connector_logs import DEFAULT, LEVELS
from ringfence.http.errors import bad_request
from ringfence.http.masking import Masker
from ringfence.projection.event_rows import severity_of
from ringfence.projection.models import Connector, LogLine

MOST_MINUTES = 24 * 60


def at_least(level: str) -> Q:
    """Match lines of this level and above."""
    return Q(severity__gte=severity_of(level.upper()))


class LevelField(OneOfField):
    """A level, in any case."""

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value(data.upper() if isinstance(data, str) else data)


def level_now(row: Connector) -> tuple[str, int]:
    """Return the current level of the connector's tasks, and until when (ms; 0 for always)."""
    counts = bool(row.log_level) and row.log_level_until_ms > time.time() * 1000
    return (row.log_level, row.log_level_until_ms) if counts else (DEFAULT, 0)


def set_level(name: str, level: str, minutes: int, user: str) -> int:
    """Set the tasks' level for so many minutes. Returns until when (ms), 0 for the default level. Raises `Refusal`."""
    if level not in LEVELS:
        raise bad_request(f"level must be one of {', '.join(LEVELS)}.")
    if not 1 <= minutes <= MOST_MINUTES:
        raise bad_request(f"minutes must be an integer from 1 to {MOST_MINUTES}.")
    if level == DEFAULT:
        dispatch.command(SetConnectorLogLevel(name, None), user=user)
        return 0
    until_ms = epoch_ms() + minutes * 60_000
    dispatch.command(SetConnectorLogLevel(name, level, until_ms), user=user)
    return until_ms


class LogLineShape(serializers.Serializer[Any]):
    """task, generation, attempt: -1 for a line of a worker. `request`: the id of the request that led to it."""

    id = serializers.IntegerField()
    time_ms = serializers.IntegerField()
    level = serializers.CharField()
    task = serializers.IntegerField()
    generation = serializers.IntegerField()
    attempt = serializers.IntegerField()
    worker = serializers.CharField(allow_blank=True)
    logger = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    request = serializers.CharField(allow_blank=True)


class Logs(ListView):
    """Newest first; the newest thousand of each connector are kept. `level`: this level and above."""

    access = {"GET": on_connector(Verb.VIEW)}
    shape = LogLineShape
    filters = {
        "level": Filter(lambda: LevelField(choices=LEVELS, required=False), at_least),
        "task": number("task"),
        "request": equal("request"),
        "search": contains("message"),
        "since": since("time_ms"),
        "until": until("time_ms"),
    }
    orders = {"id": "id", "time_ms": "time_ms"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        self._connector = connector_reads.connector(path["name"])
        return LogLine.objects.filter(connector=path["name"])

    def serialize(self, rows: Iterable[Any]) -> list[Any]:
        masker, config = Masker([self._connector.class_name]), self._connector.settings
        lines = list(rows)
        for row in lines:
            row.message = masker.scrub(row.message, config)
        return lines


class LevelShape(serializers.Serializer[Any]):
    """`until_ms`: when it returns to INFO; 0 if it is INFO."""

    level = serializers.CharField()
    until_ms = serializers.IntegerField()


class LevelRequestShape(RequestShape):
    """`minutes`: 15 by default. INFO ends another level now."""

    level = LevelField(choices=list(LEVELS))
    minutes = IntegerField(default=15, min_value=1, max_value=MOST_MINUTES)


class LogLevelOfConnector(V1View):
    """The log level of the connector's tasks. A level ends automatically."""

    access = {"GET": on_connector(Verb.VIEW), "PUT": on_connector(Verb.OPERATE).writing()}
    shape = LevelShape
    takes = {"PUT": LevelRequestShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        level, until_ms = level_now(connector_reads.connector(name))
        return Response(LevelShape({"level": level, "until_ms": until_ms}).data)

    def put(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        connector_reads.connector(name)
        until_ms = set_level(name, fields["level"], fields["minutes"], self.user_name)
        return Response(LevelShape({"level": fields["level"], "until_ms": until_ms}).data)
