"""Turns the attributes of a plugin's MBeans into source metrics. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_LAG: Final = "MilliSecondsBehindSource"
_FIRST: Final = (_LAG, "Connected", "QueueRemainingCapacity", "TotalNumberOfEventsSeen", "SnapshotRunning")
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_NOT_A_LABEL: Final = frozenset({"type", "server", "task", "connector", "name"})
_MOST: Final = 90
"""The maximum number of gauges, out of the hundred that a task may have."""
_MOST_LABELS: Final = 4


@dataclass(frozen=True, slots=True)
class FoundGauge:
    """The arguments of `connectors.api.metrics.SourceMetrics.gauge`, and a value."""

    name: str
    description: str
    value: float | None
    unit: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def find_gauges(attributes: Mapping[str, float]) -> Iterator[FoundGauge]:
    """Yield gauges, the most important first, up to the limit. attributes: values by `ObjectName/Attribute`."""
    order = sorted(attributes, key=lambda each: (not each.endswith(_FIRST), each))
    for full in order[:_MOST]:
        bean, _, attribute = full.rpartition("/")
        labels = _labels(bean)
        value = float(attributes[full])
        if attribute == _LAG:
            text = "Time by which the connector is behind its source"
            yield FoundGauge("lag", text, value / 1000 if value >= 0 else None, "seconds", labels)  # -1: unknown yet
        else:
            name = "_".join(word.lower() for word in _WORD.findall(attribute))
            if re.fullmatch(r"[a-z][a-z0-9_]{0,79}", name):
                yield FoundGauge(name, f"{attribute} of the connector's MBean", value, labels=labels)


def _labels(bean: str) -> dict[str, str]:
    """Return the bean's key properties, except those that identify the task."""
    pairs = (each.partition("=") for each in bean.partition(":")[2].split(","))
    labels = {key.replace("-", "_").lower(): value.strip('"') for key, _, value in pairs if key not in _NOT_A_LABEL}
    return {key: value for key, value in list(labels.items())[:_MOST_LABELS] if re.fullmatch(r"[a-z][a-z0-9_]*", key)}
