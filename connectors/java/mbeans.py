"""The attributes of a plugin's MBeans as metrics of the source. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_LAG: Final = "MilliSecondsBehindSource"
_FIRST: Final = (_LAG, "Connected", "QueueRemainingCapacity", "TotalNumberOfEventsSeen", "SnapshotRunning")
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_NOT_A_LABEL: Final = frozenset({"type", "server", "task", "connector", "name"})
_MOST: Final = 90
"""Of the hundred that a task may have."""
_MOST_LABELS: Final = 4


@dataclass(frozen=True, slots=True)
class FoundGauge:
    """See `connectors.api.metrics.SourceMetrics.gauge`."""

    name: str
    description: str
    value: float | None
    unit: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def find_gauges(attributes: Mapping[str, float]) -> Iterator[FoundGauge]:
    """Of `ObjectName/Attribute` and numbers; the most telling first, and no more than a task may have."""
    order = sorted(attributes, key=lambda each: (not each.endswith(_FIRST), each))
    for full in order[:_MOST]:
        bean, _, attribute = full.rpartition("/")
        labels = _labels(bean)
        value = float(attributes[full])
        if attribute == _LAG:
            text = "How far the connector is behind its source"
            yield FoundGauge("lag", text, value / 1000 if value >= 0 else None, "seconds", labels)  # -1: not known yet
        else:
            name = "_".join(word.lower() for word in _WORD.findall(attribute))
            if re.fullmatch(r"[a-z][a-z0-9_]{0,79}", name):
                yield FoundGauge(name, f"{attribute}, as the connector's MBean tells it", value, labels=labels)


def _labels(bean: str) -> dict[str, str]:
    """The bean's key properties, but for those that name the task."""
    pairs = (each.partition("=") for each in bean.partition(":")[2].split(","))
    found = {key.replace("-", "_").lower(): value.strip('"') for key, _, value in pairs if key not in _NOT_A_LABEL}
    return {key: value for key, value in list(found.items())[:_MOST_LABELS] if re.fullmatch(r"[a-z][a-z0-9_]*", key)}
