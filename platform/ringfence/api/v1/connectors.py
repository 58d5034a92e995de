"""`/api/v1/connectors`: how each connector is, its generations with their fencing rounds, its tasks and attempts."""

import json
import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.routes import on_connector, somewhere
from ringfence.access.verbs import Verb
from ringfence.api import reading
from ringfence.api.topic_grants import may_look_at
from ringfence.api.v1.base import V1View
from ringfence.api.v1.listing import ListView, contains, equal, flag, number, since, until
from ringfence.http.errors import not_found
from ringfence.http.masking import Masker
from ringfence.projection import record_totals
from ringfence.projection.health_reasons import reason_of_health
from ringfence.projection.models import Connector, Event, GenerationRow, RecordTotals, Task
from ringfence.projection.source_metrics import metrics_of


class ConnectorShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    plugin = serializers.CharField(source="class_name")
    type = serializers.CharField()
    version = serializers.CharField()
    health = serializers.CharField()
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
    reason = serializers.SerializerMethodField()
    records_total = serializers.IntegerField()
    skipped_total = serializers.IntegerField()
    dead_letters_total = serializers.IntegerField()
    aborted_records_total = serializers.IntegerField()
    last_commit_ms = serializers.IntegerField()

    def get_reason(self, row: Connector) -> str:
        return reason_of_health(row)


class Connectors(ListView):
    """All connectors that the caller may see."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = ConnectorShape
    filters = {
        "search": contains("name"),
        "state": equal("state"),
        "health": equal("health"),
        "target": equal("target"),
        "plugin": equal("class_name"),
        "worker": equal("worker"),
        "fencing": flag("fencing"),
    }
    orders = {
        "name": "name",
        "health": "severity",
        "state": "state",
        "generation": "generation",
        "tasks": "task_count",
        "since_ms": "since_ms",
    }

    def rows(self, **path: Any) -> QuerySet[Any]:
        return Connector.objects.filter(self.principal.query(), known=True)

    def serialize(self, rows: Iterable[Any]) -> list[Any]:
        return list(rows)


class ConnectorDetail(V1View):
    access = {"GET": on_connector(Verb.VIEW)}
    shape = ConnectorShape

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        return Response(ConnectorShape(reading.connector(name)).data)


class OfConnector(ListView):
    """A list of what belongs to the connector that the path names; strings are shown without its secrets."""

    def rows(self, **path: Any) -> QuerySet[Any]:
        self.connector = reading.connector(path["name"])
        return self.rows_of(self.connector)

    def rows_of(self, connector: Connector) -> QuerySet[Any]:
        """All of them."""
        raise NotImplementedError

    @cached_property
    def _masker(self) -> Masker:
        return Masker([self.connector.class_name])

    def scrub(self, text: str) -> str:
        """The text without the connector's secrets."""
        return self._masker.scrub(text, self.connector.settings)


class FencedShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    producer_id = serializers.IntegerField(allow_null=True)
    epoch = serializers.IntegerField(allow_null=True)


class GenerationShape(serializers.Serializer[Any]):
    """`stage` of its fencing round: pending, its stages, done, failed or superseded; `took_ms`: how long it took."""

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
    )
    return {
        **{field: getattr(row, field) for field in fields},
        "current": row.generation == connector.generation,
        "fenced": [{"producer_id": None, "epoch": None, **each} for each in row.fenced_ids],
        "message": message,
    }


class Generations(OfConnector):
    """The connector's generations, newest first, each with its fencing round: what was fenced, and how long it took."""

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
        connector = reading.connector(name)
        row = GenerationRow.objects.filter(connector=name, generation=min(number, 2**63 - 1)).first()
        if row is None:
            raise not_found(f"Connector {name} has no generation {number}")
        message = Masker([connector.class_name]).scrub(row.message, connector.settings)
        return Response(GenerationShape(_generation(row, connector, message)).data)


class SourceMetricShape(serializers.Serializer[Any]):
    """What a task's plugin measures at its source; `limit`: above it is a problem, null where there is no limit."""

    name = serializers.CharField()
    unit = serializers.CharField()
    description = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    value = serializers.FloatField()
    limit = serializers.FloatField(allow_null=True)
    remedy = serializers.CharField()


class FailedRecordShape(serializers.Serializer[Any]):
    """The record that failed a task. `alias`: of the transform, "" for a converter; `settings`: those that say what it
    does; `value`: its beginning, null without `view-data` for its topic."""

    stage = serializers.CharField()
    class_name = serializers.CharField()
    alias = serializers.CharField()
    settings = serializers.ListField(child=serializers.CharField())
    topic = serializers.CharField()
    source_partition = serializers.CharField(source="partition")
    source_offset = serializers.CharField(source="offset")
    value = serializers.CharField(allow_null=True)


class TaskShape(serializers.Serializer[Any]):
    """`open_records`, `open_since_ms`: of the transaction that is open now, 0 for none."""

    task = serializers.IntegerField(source="number")
    state = serializers.CharField()
    worker = serializers.CharField()
    generation = serializers.IntegerField()
    attempt = serializers.IntegerField()
    restarts = serializers.IntegerField()
    next_restart_ms = serializers.IntegerField()
    since_ms = serializers.IntegerField()
    why = serializers.CharField()
    trace = serializers.CharField()
    failed_record = FailedRecordShape(allow_null=True)
    producer_id = serializers.IntegerField()
    epoch = serializers.IntegerField()
    open_records = serializers.IntegerField()
    open_since_ms = serializers.IntegerField()
    last_commit_ms = serializers.IntegerField()
    records_total = serializers.IntegerField()
    rate = serializers.FloatField()
    transactions = serializers.IntegerField()
    aborted = serializers.IntegerField()
    source_metrics = SourceMetricShape(many=True)


class Tasks(OfConnector):
    """The tasks of the newest generation, as they are now."""

    access = {"GET": on_connector(Verb.VIEW)}
    shape = TaskShape
    filters = {"state": equal("state"), "worker": equal("worker")}
    orders = {"task": "number", "state": "state", "rate": "rate", "attempt": "attempt", "since_ms": "since_ms"}

    def rows_of(self, connector: Connector) -> QuerySet[Any]:
        return Task.objects.filter(connector=connector.name, known=True)

    def serialize(self, rows: Iterable[Any]) -> list[Any]:
        found, recorded = list(rows), record_totals.of_tasks([self.connector.name])
        now = int(time.time() * 1000)
        for row in found:
            row.trace, row.why = self.scrub(row.trace), self.scrub(row.why)
            totals = recorded.get((row.connector, row.number)) or RecordTotals()
            row.records_total, row.last_commit_ms = totals.records, totals.last_commit_ms
            row.source_metrics = list(metrics_of([row], now))
            row.failed_record = self._failed_record(row)
        return found

    def _failed_record(self, row: Task) -> dict[str, Any] | None:
        found = row.record_failure if row.state == "FAILED" else None
        if found is None:
            return None
        who, name = self.principal, row.connector
        may_see = who.may(Verb.VIEW_DATA, name) and may_look_at(found.topic, name, who)
        return {**found.fields(), **({} if may_see else {"value": None})}


class AttemptShape(serializers.Serializer[Any]):
    """One step of one attempt: placed, started, the stages, how it ended."""

    time_ms = serializers.IntegerField()
    task = serializers.IntegerField()
    generation = serializers.IntegerField()
    attempt = serializers.IntegerField()
    worker = serializers.CharField()
    stage = serializers.CharField()
    message = serializers.CharField()


class Attempts(OfConnector):
    """What the attempts of a connector's tasks went through, newest first, as long as events are kept."""

    access = {"GET": on_connector(Verb.VIEW)}
    shape = AttemptShape
    filters = {"task": number("task"), "since": since("time_ms"), "until": until("time_ms")}
    orders = {"time_ms": "time_ms", "task": "task"}
    newest_first = True

    def rows_of(self, connector: Connector) -> QuerySet[Any]:
        return Event.objects.filter(connector=connector.name, type="task", task__isnull=False)

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        blank = {"generation": -1, "attempt": 0, "worker": "", "stage": "", "message": ""}
        return [
            {
                **{name: body.get(name, otherwise) for name, otherwise in blank.items()},
                "message": self.scrub(str(body.get("message") or "")),
                "time_ms": row.time_ms,
                "task": row.task,
            }
            for row in rows
            for body in [json.loads(row.body)]
        ]
