"""The metrics of tasks' plugins (`connectors.api.metrics`), from reports, for pages.

`Task.measures` has them under `gauges`, with the report's time (`gauges_ms`). The newest known ones stay until a new
attempt reports some: an alert about them does not end because the task was restarted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ringfence.fencing.task.plugin_metrics import LONGEST_TEXT, MOST, MOST_LABELS, NAME, TAKEN_LABELS
from ringfence.projection.clean_text import clean
from ringfence.projection.models import Task

FRESH_MS: Final = 90_000
"""A running task reports its gauges twice in this time."""

_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class SourceMetric:
    """A gauge of a task. over_since_ms: since when it is above its limit, 0 if it is not."""

    task: int
    name: str
    unit: str
    description: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    limit: float | None = None
    remedy: str = ""
    over_since_ms: int = 0

    @property
    def full_name(self) -> str:
        """The name with its unit at the end, as in Prometheus."""
        return self.name if not self.unit or self.name.endswith(f"_{self.unit}") else f"{self.name}_{self.unit}"

    @property
    def over(self) -> bool:
        return self.limit is not None and self.value > self.limit

    @property
    def display(self) -> str:
        return format_value(self.value, self.unit)

    @property
    def shown_limit(self) -> str:
        return "" if self.limit is None else format_value(self.limit, self.unit)


def format_value(value: float, unit: str) -> str:
    """Format a value for users: `3.2 GiB`, `1.4 s`, `2 h 5 min`, `1,234 rows`."""
    if unit == "bytes":
        size, power = float(value), 0
        while abs(size) >= 1024 and power < len(_BYTES) - 1:
            size, power = size / 1024, power + 1
        return f"{size:,.1f} {_BYTES[power]}" if power else f"{size:,.0f} B"
    if unit == "seconds":
        if value < 60:
            return f"{value:.1f} s"
        minutes = int(value // 60)
        return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    return f"{number} {unit}".rstrip()


def keep(before: Mapping[str, Any], reported: object, time_ms: int) -> dict[str, Any]:
    """Return the gauges in `Task.measures` after a report. before: of any attempt; reported: its `gauges`."""
    if not isinstance(reported, list):
        return {name: before[name] for name in ("gauges", "gauges_ms") if name in before}
    over = {_key(each): each.get("over_since_ms", 0) for each in before.get("gauges", [])}
    gauges = []
    for each in reported[:MOST]:
        gauge = _read(each)
        if gauge is not None:
            above = gauge.get("limit") is not None and gauge["value"] > gauge["limit"]
            gauges.append({**gauge, **({"over_since_ms": over.get(_key(gauge)) or time_ms} if above else {})})
    return {"gauges": gauges, "gauges_ms": time_ms}


def metrics_of(tasks: Sequence[Task], now_ms: int, *, fresh: bool = True) -> Iterator[SourceMetric]:
    """Return the metrics of these tasks. fresh: only current ones."""
    for task in tasks:
        measures = json.loads(task.measures)
        if fresh and now_ms - measures.get("gauges_ms", 0) >= FRESH_MS:
            continue
        for each in measures.get("gauges", []):
            yield SourceMetric(task.number, **each)


def _key(gauge: Mapping[str, Any]) -> tuple[str, str]:
    return gauge["name"], json.dumps(gauge.get("labels", {}), sort_keys=True)


def _read(entry: object) -> dict[str, Any] | None:
    """Parse a gauge of a report; None if it is invalid: any client may have written it."""
    if not isinstance(entry, dict):
        return None
    name, unit, value = entry.get("name"), entry.get("unit", ""), _number(entry.get("value"))
    if not isinstance(name, str) or not NAME.fullmatch(name) or value is None:
        return None
    if not isinstance(unit, str) or (unit and not NAME.fullmatch(unit)):
        return None
    labels = entry.get("labels", {})
    if not isinstance(labels, dict) or len(labels) > MOST_LABELS:
        return None
    if any(not NAME.fullmatch(key) or key in TAKEN_LABELS for key in labels):
        return None
    return {
        "name": name,
        "unit": unit,
        "value": value,
        "description": clean(str(entry.get("description", "")))[:LONGEST_TEXT],
        "labels": {key: clean(str(text))[:LONGEST_TEXT] for key, text in labels.items()},
        "limit": _number(entry.get("limit")),
        "remedy": clean(str(entry.get("remedy", "")))[: 2 * LONGEST_TEXT],
    }


def _number(value: object) -> float | None:
    """Return the number; None for anything else, and for NaN and infinity, which Python's JSON accepts."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e300:
        return None
    return float(value)
