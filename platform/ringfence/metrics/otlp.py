"""Sends by OTLP what `/metrics` shows, where an endpoint is set (`ringfence.telemetry`).

Each web process sends its own metrics as its own, and the cluster's as the service `ringfence`, from whichever process.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from django.db import Error as DatabaseError
from django.db import close_old_connections

from ringfence import telemetry
from ringfence.fencing.clock import epoch_ms
from ringfence.metrics import web_process
from ringfence.metrics.text import Families, Family, Kind, Sample
from ringfence.metrics.views import cluster_families

if TYPE_CHECKING:  # imported where an endpoint is set
    from opentelemetry.sdk.metrics.export import Metric, MetricExporter, MetricsData
    from opentelemetry.sdk.resources import Resource

log = logging.getLogger(__name__)

_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_DEFAULT_MS: Final = 60_000
_TIMEOUT_MS: Final = 10_000
_PAIR: Final = re.compile(r'(?<!\w)(\w++)="((?:[^"\\]|\\.)*+)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_BEGAN_NS: Final = time.time_ns()


@contextmanager
def exported_metrics(instance: str) -> Iterator[None]:
    """Export within the block, if an endpoint is set. instance: this web process's name."""
    if not telemetry.is_wanted("metrics"):
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=(instance, stop), name="metrics-export", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_TIMEOUT_MS / 1000)


def _run(instance: str, stop: threading.Event) -> None:
    exporter = telemetry.new_exporter("metrics")
    if exporter is None:
        return
    own, clusters = telemetry.resource("web", instance), telemetry.resource("", "")
    while True:
        last = stop.wait(_interval_s())
        try:
            _export(exporter, own, clusters)
        except Exception as error:  # noqa: BLE001 - the root of the thread: the next time may succeed
            log.warning("Metrics were not exported: %s", type(error).__name__)
        if last:
            exporter.shutdown()
            return


def _interval_s() -> float:
    try:
        return max(100, int(os.environ.get(_INTERVAL, _DEFAULT_MS))) / 1000
    except ValueError:
        return _DEFAULT_MS / 1000


def _export(exporter: "MetricExporter", own: "Resource", clusters: "Resource") -> None:
    groups = [(own, web_process.families())]
    try:
        groups.append((clusters, cluster_families(epoch_ms())))
    except DatabaseError as error:
        log.info("The cluster's metrics were not exported: the database does not answer (%s)", type(error).__name__)
    finally:
        close_old_connections()
    exporter.export(to_metrics(groups, time.time_ns()), _TIMEOUT_MS)


def to_metrics(groups: Sequence[tuple["Resource", Families]], now_ns: int) -> "MetricsData":
    """Return the families as OpenTelemetry's data. An untyped one is a gauge, so that it keeps Kafka Connect's name."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    scope = InstrumentationScope("ringfence")

    def of_resource(resource: "Resource", families: Families) -> ResourceMetrics:
        metrics = [_metric(family, samples, now_ns) for family, samples in families if samples]
        return ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")

    return MetricsData([of_resource(resource, families) for resource, families in groups])


def _metric(family: Family, samples: Iterable[Sample], now_ns: int) -> "Metric":
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Histogram,
        Metric,
        NumberDataPoint,
        Sum,
    )

    data: Any
    if family.kind is Kind.HISTOGRAM:
        data = Histogram(_histogram_points(samples, now_ns), AggregationTemporality.CUMULATIVE)
    else:
        points = [NumberDataPoint(read_labels(text), _BEGAN_NS, now_ns, float(value)) for text, value in samples]
        is_sum = family.kind is Kind.COUNTER
        data = Sum(points, AggregationTemporality.CUMULATIVE, True) if is_sum else Gauge(points)
    return Metric(family.name, family.help, "", data)


def _histogram_points(samples: Iterable[Sample], now_ns: int) -> list[Any]:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    below: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for text, value in samples:
        attributes = read_labels(text)
        bound = attributes.pop("le", "")
        key = tuple(attributes.items())
        if bound:
            below.setdefault(key, []).append((float(bound), value))
        elif text.startswith("_sum"):
            sums[key] = value
    points = []
    for key, buckets in below.items():
        counts = [int(count) for _, count in buckets]
        each = [count - before for count, before in zip(counts, [0, *counts], strict=False)]
        bounds = [bound for bound, _ in buckets[:-1]]
        unknown: Any = None  # the least and the largest value
        total = sums.get(key, 0.0)
        points.append(
            HistogramDataPoint(dict(key), _BEGAN_NS, now_ns, counts[-1], total, each, bounds, unknown, unknown)
        )
    return points


def read_labels(text: str) -> dict[str, str]:
    """Return the inverse of `text.labels`. A suffix before the labels is left out."""
    return {name: _ESCAPED.sub(_unescape, value) for name, value in _PAIR.findall(text)}


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
