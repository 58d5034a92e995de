"""`/api/v1/events` and `/api/v1/audit`: what happened, and who did it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Q, QuerySet
from rest_framework import serializers

from ringfence.access.authorise import on_connector, somewhere
from ringfence.access.principal import Verb
from ringfence.api import connector_reads
from ringfence.api.v1.base import ListView, contains, equal, matching, number, since, until
from ringfence.audit import trail
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector, Event

_BETWEEN = {"since": since("time_ms"), "until": until("time_ms")}
_AUDIT_FILTERS = ("user", "connector", "action", "outcome", "address", "request_id")


class EventShape(serializers.Serializer[Any]):
    """`kind`: round, task, command, leader, log, warning …; `connector` is "" for the cluster's events; `request`: the
    id of the request that led to it, "" if none is known. Of a task's attempt also `generation`, `attempt` and, once it
    has a producer, what names its transactions in Kafka; -1 and "" elsewhere. With Kafka's second version of
    transactions each one has an epoch of its own, and this is the first.
    """

    id = serializers.IntegerField()
    time_ms = serializers.IntegerField()
    kind = serializers.CharField()
    connector = serializers.CharField()
    task = serializers.IntegerField(allow_null=True)
    summary = serializers.CharField()
    request = serializers.CharField(allow_blank=True)
    generation = serializers.IntegerField()
    attempt = serializers.IntegerField()
    transactional_id = serializers.CharField(allow_blank=True)
    producer_id = serializers.IntegerField()
    epoch = serializers.IntegerField()


def _user(name: str) -> Q:
    """Match the user of commands. The body is compact JSON: sorted keys, ASCII."""
    return Q(type="command", body__contains=f'"user":{json.dumps(name)}')


def _request(id_: str) -> Q:
    """Match what a request has led to."""
    return Q(body__contains=f'"request":{json.dumps(id_)}')


class Events(ListView):
    """The timeline, newest first, of the connectors that the caller may see and of the cluster."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = EventShape
    filters = {
        "connector": equal("connector"),
        "kind": equal("type"),
        "task": number("task"),
        "user": matching(_user),
        "request": matching(_request),
        "search": contains("summary"),
        **_BETWEEN,
    }
    orders = {"time_ms": "time_ms", "kind": "type", "connector": "connector"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        condition = self.principal.query(field="connector")
        # Django drops an empty condition from an "or", which would leave only the other one.
        return Event.objects.filter(condition | Q(connector="")) if condition else Event.objects.all()

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        events = list(rows)
        connectors = Connector.objects.filter(name__in={row.connector for row in events})
        configs = {row.name: row.settings for row in connectors}
        masker = Masker({config.get("connector.class", "") for config in configs.values()})
        return [
            {
                **{field: getattr(row, field) for field in ("id", "time_ms", "connector", "task")},
                "kind": row.type,
                "summary": masker.scrub(row.summary, configs.get(row.connector, {})),
                **_references(json.loads(row.body)),
            }
            for row in events
        ]


def _references(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what leads from an event to its request, attempt and transactions. A task may have written anything."""
    numbers = {name: body.get(name) for name in ("generation", "attempt", "producer_id", "epoch")}
    return {
        **{name: str(body.get(name, "")) for name in ("request", "transactional_id")},
        **{name: value if type(value) is int else -1 for name, value in numbers.items()},
    }


class ConnectorEvents(Events):
    """The timeline of one connector."""

    access = {"GET": on_connector(Verb.VIEW)}
    filters = {name: condition for name, condition in Events.filters.items() if name != "connector"}

    def rows(self, **path: Any) -> QuerySet[Any]:
        return Event.objects.filter(connector=connector_reads.connector(path["name"]).name)


class AuditShape(serializers.Serializer[Any]):
    """`before` and `after`: any JSON, secrets masked; `changed`: the settings that differ; `request_id`: as in the
    logs, and in the answer's `X-Request-ID`.
    """

    id = serializers.IntegerField()
    time_ms = serializers.IntegerField()
    user = serializers.CharField()
    via = serializers.CharField()
    address = serializers.CharField()
    action = serializers.CharField()
    request = serializers.CharField()
    request_id = serializers.CharField(allow_blank=True)
    connector = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()
    changed = serializers.ListField(child=serializers.CharField())
    outcome = serializers.CharField()
    status = serializers.IntegerField()
    message = serializers.CharField()


class Audit(ListView):
    """The audit trail, newest first: all of it with the permission `admin`, otherwise for connectors whose
    configuration you may read.
    """

    access = {"GET": somewhere(Verb.VIEW_CONFIG)}
    shape = AuditShape
    filters = {**{name: equal(name) for name in _AUDIT_FILTERS}, **_BETWEEN}
    orders = {"time_ms": "time_ms", "user": "user", "connector": "connector", "action": "action"}
    newest_first = True

    def rows(self, **path: Any) -> QuerySet[Any]:
        return trail.entries(self.principal)

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        texts = ("before", "after", "changed")
        plain = [str(name) for name in AuditShape().fields if str(name) not in texts]
        return [
            {
                **{name: getattr(row, name) for name in plain},
                **{name: json.loads(getattr(row, name)) for name in texts},
            }
            for row in rows
        ]
