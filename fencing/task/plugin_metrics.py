"""The metrics that a plugin reports itself; sent with the attempt's numbers (`fencing.task.attempt_report`)."""

import logging
import math
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

log = logging.getLogger(__name__)

MOST: Final = 100
"""The maximum for one task."""
MOST_LABELS: Final = 4
LONGEST_TEXT: Final = 300
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,79}", re.ASCII)
TAKEN_LABELS: Final = frozenset({"connector", "task"})


@dataclass(slots=True)
class TaskGauge:
    """The framework's `Gauge`."""

    name: str
    description: str
    unit: str
    labels: Mapping[str, str]
    limit: float | None
    remedy: str
    value: float | None = None

    def set(self, value: float | None) -> None:
        self.value = None if value is None or not math.isfinite(value) else float(value)

    def describe(self) -> dict[str, object]:
        """Return it as in a `progress` event, without empty fields."""
        fields = {"name": self.name, "value": self.value, "unit": self.unit, "description": self.description}
        more = {"labels": dict(self.labels), "limit": self.limit, "remedy": self.remedy}
        return {**fields, **{key: each for key, each in more.items() if each not in ({}, None, "")}}


class Gauges:
    """The framework's `SourceMetrics` for one instance of a plugin, until `clear`. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: dict[tuple[str, tuple[tuple[str, str], ...]], TaskGauge] = {}
        self._is_full = False

    def gauge(
        self,
        name: str,
        description: str,
        *,
        unit: str = "",
        labels: Mapping[str, str] | None = None,
        limit: float | None = None,
        remedy: str = "",
    ) -> TaskGauge:
        """See `connectors.api.metrics`."""
        tags = {key: str(value)[:LONGEST_TEXT] for key, value in (labels or {}).items()}
        _check(name, unit, tags)
        texts = description[:LONGEST_TEXT], unit, tags, limit, remedy[: 2 * LONGEST_TEXT]
        with self._lock:
            gauge = self._gauges.get((name, tuple(sorted(tags.items()))))
            if gauge is not None:
                gauge.description, gauge.unit, gauge.labels, gauge.limit, gauge.remedy = texts
                return gauge
            new_gauge = TaskGauge(name, *texts)
            if len(self._gauges) < MOST:
                self._gauges[name, tuple(sorted(tags.items()))] = new_gauge
            elif not self._is_full:
                self._is_full = True
                log.warning("Metrics of the plugin beyond the first %d are not reported, %s among them", MOST, name)
            return new_gauge

    def clear(self) -> None:
        """Remove all gauges, before another instance of the plugin starts."""
        with self._lock:
            self._gauges.clear()

    def read(self, name: str, unit: str) -> float | None:
        """Return the value of the first gauge of that name and unit that has one."""
        with self._lock:
            gauges = [each for each in self._gauges.values() if (each.name, each.unit) == (name, unit)]
            return next((each.value for each in gauges if each.value is not None), None)

    def report(self) -> list[dict[str, object]]:
        """Return the gauges that have a value."""
        with self._lock:
            return [gauge.describe() for gauge in self._gauges.values() if gauge.value is not None]


def _check(name: str, unit: str, labels: Mapping[str, str]) -> None:
    for what, text in (("A metric's name", name), *((("The unit", unit),) if unit else ())):
        if not NAME.fullmatch(text):
            raise ValueError(f"{what} is made of a-z, 0-9 and _, and begins with a letter: {text!r} does not fit.")
    wrong = [key for key in labels if not NAME.fullmatch(key) or key in TAKEN_LABELS]
    if wrong or len(labels) > MOST_LABELS:
        raise ValueError(
            f"A metric has at most {MOST_LABELS} labels, of a-z, 0-9 and _, none of them connector or task."
        )
