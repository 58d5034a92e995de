"""The same metrics under the names that others give Kafka Connect's attributes, for dashboards that read those.

Kafka Connect publishes attributes over JMX, and each exporter makes metrics of them by rules of its own. A scheme is
one set of rules: what it names otherwise comes in addition to our names, under the labels that it gives.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ringfence.metrics.text import Families, Family, Kind, Sample, labels
from ringfence.projection.models import Connector, Worker

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
