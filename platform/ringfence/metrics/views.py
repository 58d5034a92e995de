"""`GET /metrics`, and with `?names=…` under the names that others give Kafka Connect's attributes, for dashboards that
read those.

Kafka Connect publishes attributes over JMX, and each exporter makes metrics of them by rules of its own. A scheme is
one set of rules: what it names otherwise comes in addition to our names, under the labels that it gives.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from ringfence import quotas
from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import EVERYBODY_HERE, Principal, Verb
from ringfence.clock_differences import clocks
from ringfence.fencing.clock import epoch_ms
from ringfence.http.error_pages import too_many
from ringfence.http.errors import json_error
from ringfence.metrics import connect_tasks, connector_metrics, web_process
from ringfence.metrics.connect_tasks import FIELDS, TaskMetricsRow
from ringfence.metrics.text import CONTENT_TYPE, Families, Family, Kind, Sample, labels, render
from ringfence.projection import record_totals
from ringfence.projection.health import known_health
from ringfence.projection.models import ClusterInfo, Connector, Startups, Suspicion, Task, Worker

_NAME: Final = re.compile(r"kafka_(?:connect|producer)_(?:connect_)?([a-z_]+?)_metrics_([a-z_]+)")
"""Group and attribute in one of our names: `kafka_connect_connect_worker_metrics_task_count`."""
_CLIENT_ID: Final = re.compile(r"\A\{client_id=")


@dataclass(frozen=True, slots=True)
class TextAttribute:
    """An attribute whose value is a text, with a sample of 1 for each of its values. group: the JMX type, without
    `-metrics`.
    """

    group: str
    name: str
    samples: list[Sample]


def text_attributes(connectors: list[Connector], status: list[Sample]) -> list[TextAttribute]:
    """Return the text attributes of connectors and tasks. status: the samples of the tasks' states."""

    def each(name: str, value: Callable[[Connector], str]) -> TextAttribute:
        samples = [(labels({"connector": row.name, name: value(row)}), 1.0) for row in connectors if value(row)]
        return TextAttribute("connector", name, samples)

    return [
        each("status", lambda row: "failed" if row.unreadable else row.state.lower()),
        each("connector_class", lambda row: row.class_name),
        each("connector_type", lambda row: row.type),
        each("connector_version", lambda row: row.version or "unknown"),
        TextAttribute("connector_task", "status", status),
    ]


Scheme = Callable[[Families, list[TextAttribute], list[Worker]], Families]


def _confluent(families: Families, texts: list[TextAttribute], workers: list[Worker]) -> Families:
    """Confluent's jmx-monitoring-stacks: every text of a connector is a label of one metric. Since version 1, the
    exporter drops `_total` and `_info`.
    """
    states = [sample for text in texts if text.group == "connector" for sample in text.samples]
    about = "1; the label is a text attribute of the connector."
    apps = [
        (labels({"client_id": worker.worker, name: value}), 1.0)
        for worker in workers
        for name, value in (("version", worker.version), ("start_time_ms", worker.since_ms))
    ]
    return [
        *_without_total(families),
        (Family("kafka_connect_connector_metrics", Kind.UNTYPED, about, ""), states),
        *(
            (Family(name, Kind.UNTYPED, _ABOUT_APP, ""), apps)
            for name in ("kafka_connect_app", "kafka_connect_app_info")
        ),
    ]


def _strimzi(families: Families, texts: list[TextAttribute], workers: list[Worker]) -> Families:
    """Strimzi's example for the JMX exporter: without `_metrics`, and with each name of a client once."""
    seconds = [(labels({"clientid": worker.worker}), worker.since_ms / 1000) for worker in workers]
    versions = [(labels({"clientid": worker.worker, "version": worker.version}), 1.0) for worker in workers]
    return [
        *(
            (
                replace(family, name=short),
                [(_CLIENT_ID.sub("{clientid=", label), value) for label, value in samples],
            )
            for family, samples in families
            if (short := _short_name(family.name))
        ),
        *(
            (Family(f"kafka_connect_{text.group}_{text.name}", Kind.GAUGE, _about(text), ""), text.samples)
            for text in texts
        ),
        (Family("kafka_connect_start_time_seconds", Kind.GAUGE, "When the worker began, seconds.", ""), seconds),
        (Family("kafka_connect_version_info", Kind.UNTYPED, _ABOUT_APP, ""), versions),
    ]


def _strimzi_reporter(families: Families, texts: list[TextAttribute], workers: list[Worker]) -> Families:
    """Strimzi's metrics reporter: texts end in `_info`, and `_total` is dropped."""
    versions = [(labels({"client_id": worker.worker, "version": worker.version}), 1.0) for worker in workers]
    return [
        *_without_total(families),
        *(
            (Family(f"kafka_connect_{text.group}_metrics_{text.name}_info", Kind.GAUGE, _about(text), ""), text.samples)
            for text in texts
        ),
        (Family("kafka_connect_app_info_version_info", Kind.GAUGE, _ABOUT_APP, ""), versions),
    ]


_ABOUT_APP: Final = "1; the labels describe the worker."
SCHEMES: Final[Mapping[str, Scheme]] = {
    "confluent": _confluent,
    "strimzi": _strimzi,
    "strimzi-reporter": _strimzi_reporter,
}
"""By the value of `names` in `GET /metrics?names=…`."""


def _about(text: TextAttribute) -> str:
    return f"1; the label is the attribute {text.name.replace('_', '-')}."


def _without_total(families: Families) -> Families:
    return [
        (replace(family, name=family.name.removesuffix("_total"), kind=Kind.UNTYPED), samples)
        for family, samples in families
        if family.name.startswith("kafka_") and family.name.endswith("_total")
    ]


def _short_name(name: str) -> str:
    """Return the name without `_metrics`; "" for one that is not Kafka's, or stands for texts."""
    match = _NAME.fullmatch(name)
    if match is None or match[2] in ("info", "status"):
        return ""
    return f"kafka_{match[1]}_{match[2]}" if match[1] == "producer" else f"kafka_connect_{match[1]}_{match[2]}"


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
            text = exposition(epoch_ms(), principal_of(request), tuple(names))
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
