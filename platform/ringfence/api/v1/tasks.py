"""`/api/v1/connectors/<name>/tasks` and `/attempts`: the state of the tasks, and their history."""

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from ringfence.access.authorise import on_connector
from ringfence.access.principal import Verb
from ringfence.api.topic_grant_check import may_look_at
from ringfence.api.v1.connectors import OfConnector
from ringfence.api.v1.listing import equal, number, since, until
from ringfence.projection import record_totals
from ringfence.projection.models import Connector, Event, RecordTotals, Task
from ringfence.projection.task_metrics import metrics_of, uses_transactions_v2


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
        now, reported = int(time.time() * 1000), bool(record_totals.find_reported([self.connector.name]))
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
