"""`/api/v1/connectors`: the state of each connector, its generations with their fencing rounds, its tasks and attempts
with their history.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import on_connector, somewhere
from ringfence.access.principal import Verb
from ringfence.api import connector_reads
from ringfence.api.topic_grant_check import may_look_at
from ringfence.api.v1.base import ListView, V1View, contains, equal, flag, number, since, until
from ringfence.fencing.clock import epoch_ms
from ringfence.http.errors import not_found
from ringfence.http.masking import Masker
from ringfence.projection import record_totals
from ringfence.projection.health import find_data_ages, known_health, reason_with_time
from ringfence.projection.models import Connector, Event, GenerationRow, RecordTotals, Task
from ringfence.projection.progress_reports import metrics_of, uses_transactions_v2
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


class SourceMetricShape(serializers.Serializer[Any]):
    """A measurement of a task's plugin at its source. `limit`: a value above it is a problem, null for no limit."""

    name = serializers.CharField()
    unit = serializers.CharField()
    description = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    value = serializers.FloatField()
    limit = serializers.FloatField(allow_null=True)
    remedy = serializers.CharField()


class FailedRecordShape(serializers.Serializer[Any]):
    """The record that failed a task. `alias`: of the transform, "" for a converter; `settings`: those that configure
    it; `value`: its beginning, null without `view-data` for its topic.
    """

    stage = serializers.CharField()
    class_name = serializers.CharField()
    alias = serializers.CharField()
    settings = serializers.ListField(child=serializers.CharField())
    topic = serializers.CharField()
    source_partition = serializers.CharField(source="partition")
    source_offset = serializers.CharField(source="offset")
    value = serializers.CharField(allow_null=True)


class PollRetryShape(serializers.Serializer[Any]):
    """Why a running task reads nothing: its source refuses, since `since_ms`, and is asked again at `next_ms`."""

    cause = serializers.CharField()
    since_ms = serializers.IntegerField()
    attempts = serializers.IntegerField()
    next_ms = serializers.IntegerField()


class TaskShape(serializers.Serializer[Any]):
    """`open_records`, `open_since_ms`: of the open transaction, 0 for none. `transactions_v2`: whether each transaction
    has an epoch of its own, so that brokers refuse late requests (KIP-890); null if the task has reported no producer.
    """

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
    retry = PollRetryShape(source="refusal", allow_null=True)
    producer_id = serializers.IntegerField()
    epoch = serializers.IntegerField()
    transactions_v2 = serializers.BooleanField(allow_null=True)
    open_records = serializers.IntegerField()
    open_since_ms = serializers.IntegerField()
    last_commit_ms = serializers.IntegerField()
    records_total = serializers.IntegerField()
    records_reported = serializers.BooleanField()
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
        tasks, recorded = list(rows), record_totals.of_tasks([self.connector.name])
        now, reported = epoch_ms(), bool(record_totals.find_reported([self.connector.name]))
        for row in tasks:
            row.records_reported = reported
            row.trace, row.why = self.scrub(row.trace), self.scrub(row.why)
            totals = recorded.get((row.connector, row.number)) or RecordTotals()
            row.records_total, row.last_commit_ms = totals.records, totals.last_commit_ms
            row.transactions_v2 = uses_transactions_v2(row)
            row.source_metrics = list(metrics_of([row], now))
            row.failed_record = self._failed_record(row)
            retry = row.poll_retry
            row.refusal = None if retry is None else replace(retry, cause=self.scrub(retry.cause))
        return tasks

    def _failed_record(self, row: Task) -> dict[str, Any] | None:
        failure = row.record_failure if row.state == "FAILED" else None
        if failure is None:
            return None
        who, name = self.principal, row.connector
        may_see = who.may(Verb.VIEW_DATA, name) and may_look_at(failure.topic, name, who)
        return {**failure.fields(), **({} if may_see else {"value": None})}


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
    """The history of the attempts of a connector's tasks, newest first, as far as events are kept."""

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
