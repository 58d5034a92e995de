"""`/api/v1/workers` and `/api/v1/leader`: the workers, and the leader."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import somewhere
from ringfence.access.principal import Verb
from ringfence.api.v1.base import ListView, V1View, equal
from ringfence.fencing.topics.status import Trust
from ringfence.http.errors import not_found
from ringfence.projection.models import ClusterInfo, DrainedWorker, Suspicion, Task, Worker


class WorkerShape(serializers.Serializer[Any]):
    """`tasks`: those that the caller may see, as placed by the status topic. `drained`: it gets no new ones.

    `trust`: `trusted`; `suspected` while it is silent and its tasks are placed elsewhere; `calming` while it is back
    and gets further tasks only if no other worker has a slot. `suspicions`: how often it was suspected lately.
    """

    worker = serializers.CharField()
    incarnation = serializers.CharField()
    mode = serializers.CharField()
    slots = serializers.IntegerField()
    tasks = serializers.IntegerField()
    version = serializers.CharField()
    since_ms = serializers.IntegerField()
    leads = serializers.BooleanField()
    drained = serializers.BooleanField()
    trust = serializers.ChoiceField([*Trust])
    suspicions = serializers.IntegerField()


class Workers(ListView):
    """The members of the worker group, as they described themselves."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = WorkerShape
    filters = {"worker": equal("worker"), "mode": equal("mode"), "version": equal("version")}
    orders = {"worker": "worker", "since_ms": "since_ms", "slots": "slots"}

    def rows(self, **path: Any) -> QuerySet[Any]:
        return Worker.objects.all()

    def serialize(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        cluster = ClusterInfo.objects.first()
        drained = dict(DrainedWorker.objects.values_list("worker", "incarnation"))
        suspicions = {(row.worker, row.incarnation): row for row in Suspicion.objects.all()}
        placed = Task.objects.filter(self.principal.query(field="connector"), known=True).order_by()
        tasks = dict(placed.values_list("worker").annotate(Count("pk")))
        fields = ("worker", "incarnation", "mode", "slots", "version", "since_ms")
        return [
            {
                **{field: getattr(row, field) for field in fields},
                "tasks": tasks.get(row.worker, 0),
                "leads": cluster is not None and (cluster.leader, cluster.incarnation) == (row.worker, row.incarnation),
                "drained": drained.get(row.worker) == row.incarnation,
                "trust": one.trust if (one := suspicions.get((row.worker, row.incarnation))) else Trust.TRUSTED,
                "suspicions": one.times if one else 0,
            }
            for row in rows
        ]


class LeaderShape(serializers.Serializer[Any]):
    leader = serializers.CharField()
    incarnation = serializers.CharField()
    group_generation = serializers.IntegerField()
    since_ms = serializers.IntegerField()
    kafka_cluster_id = serializers.CharField()
    kafka_bootstrap = serializers.CharField()


class Leader(V1View):
    """The leader, as last recorded in the database; 404 before the first leader."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = LeaderShape

    def get(self, request: Request) -> Response:
        self.parse_parameters()
        cluster = ClusterInfo.objects.exclude(leader="").first()
        if cluster is None:
            raise not_found("No worker has led this cluster yet: is one running? Check GET /health")
        return Response(LeaderShape(cluster).data)
