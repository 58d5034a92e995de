"""`GET /metrics`, and with `?names=…` under the names of other exporters, too."""

import time
from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from ringfence import quotas
from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import EVERYBODY_HERE, Principal, Verb
from ringfence.clock_differences import clocks
from ringfence.http.error_pages import too_many
from ringfence.http.errors import json_error
from ringfence.metrics import connect_tasks, connector_metrics, web_process
from ringfence.metrics.connect_tasks import FIELDS, TaskMetricsRow
from ringfence.metrics.other_names import SCHEMES, TextAttribute, text_attributes
from ringfence.metrics.text import CONTENT_TYPE, Families, Family, Kind, Sample, labels, render
from ringfence.projection import record_totals
from ringfence.projection.health import known_health
from ringfence.projection.models import ClusterInfo, Connector, Startups, Suspicion, Task, Worker

_CLOCKS = Family(
    "ringfence_clock_offset_seconds",
    Kind.GAUGE,
    "How far the clock of a worker, or of the web process that answers, is ahead of Redis'.",
    "two of them differ by more than 2",
)
_STATUS = Family(
    "kafka_connect_connector_task_metrics_status",
    Kind.GAUGE,
    "1 for the task's state, in the label `status`.",
    "it is failed, or stays unassigned",
)


@requires(GET=somewhere(Verb.VIEW))
@csrf_exempt
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all metrics, in Prometheus' text format."""
    if request.method not in ("GET", "HEAD"):
        return json_error(405, "HTTP 405 Method Not Allowed")
    names = dict.fromkeys(name for value in request.GET.getlist("names") for name in value.split(",") if name)
    unknown = [name for name in names if name not in SCHEMES]
    if unknown:
        return json_error(400, f"names: {unknown[0]!r} is unknown. Use {', '.join(SCHEMES)}, or several of them.")
    try:
        with quotas.SCRAPES.take():
            text = exposition(int(time.time() * 1000), principal_of(request), tuple(names))
    except quotas.TooMany as many:
        return too_many(request, many.message)
    return HttpResponse(text, content_type=CONTENT_TYPE)


def exposition(now_ms: int, who: Principal = EVERYBODY_HERE, schemes: Sequence[str] = ()) -> str:
    """Return the metrics of the visible connectors, and this web process's. schemes: keys of `SCHEMES`, whose names are
    added.
    """
    families, texts, members = _collect(now_ms, who)
    families += web_process.families()
    added = {
        family.name: (family, samples)
        for name in schemes
        for family, samples in SCHEMES[name](families, texts, members)
    }
    return render([*families, *added.values()])


def cluster_families(now_ms: int) -> Families:
    """Return the metrics of the whole cluster, which each web process shows alike."""
    return _collect(now_ms, EVERYBODY_HERE)[0]


def _collect(now_ms: int, who: Principal) -> tuple[Families, list[TextAttribute], list[Worker]]:
    """Collect with eight queries for any number of connectors and tasks."""
    connectors = list(
        Connector.objects.filter(who.query(), known=True).only(*connector_metrics.CONNECTOR_FIELDS).order_by("name")
    )
    names = {row.name for row in connectors}
    rows = Task.objects.filter(known=True).only(*FIELDS).order_by("connector", "number")
    visible = [task for task in rows if task.connector in names]
    recorded = record_totals.of_tasks(names)
    views = [
        (
            labels({"connector": task.connector, "task": task.number}),
            TaskMetricsRow.of(task, now_ms, recorded.get((task.connector, task.number))),
        )
        for task in visible
    ]
    status: list[Sample] = [
        (labels({"connector": task.connector, "task": task.number, "status": task.state.lower()}), 1.0)
        for task in visible
        if task.state
    ]
    members, startups = list(Worker.objects.order_by("worker")), list(Startups.objects.all())
    health = known_health()
    families: Families = [
        *connector_metrics.connectors(connectors, visible, health),
        (_STATUS, status),
        *(
            (family, [(label, number) for label, view in views if (number := value(view)) is not None])
            for family, value in connect_tasks.TASKS
        ),
        connect_tasks.sent_bytes([view for _, view in views]),
        *connector_metrics.families(visible, now_ms),
        *connector_metrics.workers(members, startups, connectors, visible, Suspicion.objects.all()),
        *connector_metrics.cluster(ClusterInfo.objects.first(), health.vitals, now_ms),
        (_CLOCKS, [(labels({"process": name}), ahead) for name, ahead in clocks.offsets().items()]),
    ]
    return families, text_attributes(connectors, status), members
