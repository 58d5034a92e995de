"""`/api/v1/connectors`: the state of each connector, its generations with their fencing rounds, its
tasks and attempts.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import on_connector, somewhere
from ringfence.access.principal import Verb
from ringfence.api import connector_reads
from ringfence.api.v1.base import V1View
from ringfence.api.v1.listing import ListView, contains, equal, flag, since, until
from ringfence.http.errors import not_found
from ringfence.http.masking import Masker
from ringfence.projection.health import find_data_ages, known_health, reason_with_time
from ringfence.projection.models import Connector, GenerationRow
from ringfence.projection.record_totals import find_reported
from ringfence.projection.slots import MAY_WAIT, find_waiting


class ConnectorShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    plugin = serializers.CharField(source="class_name")
    type = serializers.CharField()
    version = serializers.CharField()
    health = serializers.CharField(source="now_health")
    state = serializers.CharField()
    target = serializers.CharField()
    worker = serializers.CharField()
    generation = serializers.IntegerField()
    generation_number = serializers.IntegerField()
    config_offset = serializers.IntegerField()
    fencing = serializers.BooleanField()
    tasks = serializers.IntegerField(source="task_count")
    tasks_running = serializers.IntegerField()
    tasks_failed = serializers.IntegerField()
    fencing_rounds = serializers.IntegerField(source="rounds_total")
    fenced_ids = serializers.IntegerField(source="fenced_total")
    since_ms = serializers.IntegerField()
    reason = serializers.CharField(source="now_reason")
    records_total = serializers.IntegerField()
    records_reported = serializers.BooleanField()
    skipped_total = serializers.IntegerField()
    dead_letters_total = serializers.IntegerField()
    aborted_records_total = serializers.IntegerField()
    last_commit_ms = serializers.IntegerField()
    data_as_of_ms = serializers.IntegerField()


def as_known(rows: Iterable[Connector]) -> list[Connector]:
    """Set the health that is certain now, and its reason."""
    connectors, health = list(rows), known_health()
    waiting = find_waiting([row.name for row in connectors if row.health in MAY_WAIT])
    reported = find_reported([row.name for row in connectors])
    ages = find_data_ages([row.name for row in connectors])
    for row in connectors:
        row.data_as_of_ms = ages.get(row.name, 0)  # type: ignore[attr-defined]
        row.records_reported = row.name in reported  # type: ignore[attr-defined]
        row.now_health = health.health_of(row)  # type: ignore[attr-defined]
        row.now_reason = reason_with_time(row, health, waiting.get(row.name, ""))  # type: ignore[attr-defined]
    return connectors


class Connectors(ListView):
    """All connectors that the caller may see."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = ConnectorShape
    filters = {
        "search": contains("name"),
        "state": equal("state"),
        "health": equal("now_health"),
        "target": equal("target"),
        "plugin": equal("class_name"),
        "worker": equal("worker"),
        "fencing": flag("fencing"),
    }
    orders = {
        "name": "name",
        "health": "now_severity",
        "state": "state",
        "generation": "generation",
        "tasks": "task_count",
        "since_ms": "since_ms",
    }

    def rows(self, **path: Any) -> QuerySet[Any]:
        rows = Connector.objects.filter(self.principal.query(), known=True)
        health = known_health()
        return rows.annotate(now_health=health.column, now_severity=health.severity_column)

    def serialize(self, rows: Iterable[Any]) -> list[Any]:
        return as_known(rows)


class ConnectorDetail(V1View):
    access = {"GET": on_connector(Verb.VIEW)}
    shape = ConnectorShape

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        return Response(ConnectorShape(as_known([connector_reads.connector(name)])[0]).data)


class OfConnector(ListView):
    """A list that belongs to the connector in the path. Secrets are removed from strings."""

    def rows(self, **path: Any) -> QuerySet[Any]:
        self.connector = connector_reads.connector(path["name"])
        return self.rows_of(self.connector)

    def rows_of(self, connector: Connector) -> QuerySet[Any]:
        """Return all rows of the connector."""
        raise NotImplementedError

    @cached_property
    def _masker(self) -> Masker:
        return Masker([self.connector.class_name])

    def scrub(self, text: str) -> str:
        """Return the text without the connector's secrets."""
        return self._masker.scrub(text, self.connector.settings)


class FencedShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    producer_id = serializers.IntegerField(allow_null=True)
    epoch = serializers.IntegerField(allow_null=True)


class GenerationShape(serializers.Serializer[Any]):
    """`stage` of its fencing round: pending, its stages, done, failed or superseded; `took_ms`: its duration."""

    generation = serializers.IntegerField()
    number = serializers.IntegerField()
    forced = serializers.BooleanField()
    forced_by = serializers.CharField()
    current = serializers.BooleanField()
    tasks = serializers.IntegerField()
    config_offset = serializers.IntegerField()
    committed_ms = serializers.IntegerField()
    stage = serializers.CharField()
    started_ms = serializers.IntegerField()
    ended_ms = serializers.IntegerField()
    took_ms = serializers.IntegerField()
    request = serializers.CharField(allow_blank=True)
    fenced = FencedShape(many=True)
    message = serializers.CharField()


def _generation(row: GenerationRow, connector: Connector, message: str) -> dict[str, Any]:
    fields = (
        "generation",
        "number",
        "forced",
        "forced_by",
        "tasks",
        "config_offset",
        "committed_ms",
        "stage",
        "started_ms",
        "ended_ms",
        "took_ms",
        "request",
    )
    return {
        **{field: getattr(row, field) for field in fields},
        "current": row.generation == connector.generation,
        "fenced": [{"producer_id": None, "epoch": None, **each} for each in row.fenced_ids],
        "message": message,
    }


class Generations(OfConnector):
    """The connector's generations, newest first, each with its fencing round: what was fenced, and the duration."""

    access = {"GET": on_connector(Verb.VIEW)}
    shape = GenerationShape
    filters = {"stage": equal("stage"), "since": since("committed_ms"), "until": until("committed_ms")}
    orders = {"generation": "generation", "committed_ms": "committed_ms", "took_ms": "took_ms", "tasks": "tasks"}
    newest_first = True

    def rows_of(self, connector: Connector) -> QuerySet[Any]:
        return GenerationRow.objects.filter(connector=connector.name)

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [_generation(row, self.connector, self.scrub(row.message)) for row in rows]


class Generation(V1View):
    access = {"GET": on_connector(Verb.VIEW)}
    shape = GenerationShape

    def get(self, request: Request, name: str, number: int) -> Response:
        self.parse_parameters()
        connector = connector_reads.connector(name)
        row = GenerationRow.objects.filter(connector=name, generation=min(number, 2**63 - 1)).first()
        if row is None:
            raise not_found(f"Connector {name} has no generation {number}")
        message = Masker([connector.class_name]).scrub(row.message, connector.settings)
        return Response(GenerationShape(_generation(row, connector, message)).data)
