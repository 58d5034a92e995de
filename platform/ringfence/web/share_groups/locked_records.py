"""The share group records that a connector's tasks hold, from their last reports. There is no other source for this."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringfence.fencing.share.offset_ranges import Ranges
from ringfence.projection.models import Task


@dataclass(frozen=True, slots=True)
class HeldByTasks:
    """Ranges by topic and partition. time_ms: of the oldest report that they come from, 0 for none."""

    ranges: Mapping[tuple[str, int], Ranges] = field(default_factory=dict)
    time_ms: int = 0

    def of(self, topic: str, partition: int) -> Ranges:
        return self.ranges.get((topic, partition)) or Ranges()

    @property
    def count(self) -> int:
        """The number of records in all partitions."""
        return sum(one.size for one in self.ranges.values())


def find_held(connectors: Sequence[str]) -> HeldByTasks:
    """Return what the running tasks hold."""
    ranges: dict[tuple[str, int], Ranges] = {}
    times = []
    for task in Task.objects.filter(connector__in=connectors, known=True, state="RUNNING"):
        measures = json.loads(task.measures)
        for topic, partition, first, last in measures.get("held", ()):
            ranges.setdefault((topic, partition), Ranges()).add(first, last)
        if measures.get("held"):
            times.append(int(measures["held_ms"]))
    return HeldByTasks(ranges, min(times, default=0))
