"""The metrics that connectors measure themselves, as families named by their plugins."""

from collections.abc import Iterable

from ringfence.metrics.text import Family, Kind, Sample, labels
from ringfence.projection.models import Task
from ringfence.projection.plugin_metrics import metrics_of

PREFIX = "ringfence_source_"


def families(tasks: Iterable[Task], now_ms: int) -> list[tuple[Family, list[Sample]]]:
    """Return the families of these tasks, by name. The first plugin that has a family describes it."""
    by_name: dict[str, tuple[Family, list[Sample]]] = {}
    for task in tasks:
        for metric in metrics_of([task], now_ms):
            name = PREFIX + metric.full_name
            bad = f"it is above {metric.shown_limit}" if metric.limit is not None else ""
            _, samples = by_name.setdefault(name, (Family(name, Kind.GAUGE, f"{metric.description}.", bad), []))
            where = {"connector": task.connector, "task": task.number, **metric.labels}
            samples.append((labels(where), metric.value))
    return [by_name[name] for name in sorted(by_name)]
