"""A task's row for its metrics: distributions of the last minute, ratios, ages."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ringfence.projection.models import RecordTotals, Task

FIELDS: Final = (
    "connector", "number", "state", "worker", "generation", "attempt", "restarts", "next_restart_ms", "auto_restarts",
    "live_generation", "live_attempt", "reported_ms", "rate", "bytes", "open_records", "open_since_ms",
    "last_poll_ms", "last_commit_ms", "data_as_of_ms", "measures", "totals",
)  # fmt: skip
_LIVE_MS = 5_000
_WINDOW_MS = 60_000


@dataclass(frozen=True, slots=True)
class TaskMetricsRow:
    """A task at one moment. An outdated report has no rates or distributions."""

    task: Task
    now_ms: int
    measures: Mapping[str, Any]
    totals: Mapping[str, int]
    recorded: RecordTotals

    @classmethod
    def of(cls, task: Task, now_ms: int, recorded: RecordTotals | None) -> "TaskMetricsRow":
        return cls(task, now_ms, json.loads(task.measures), json.loads(task.totals), recorded or RecordTotals())

    @property
    def _age_ms(self) -> int:
        return max(0, self.now_ms - self.task.reported_ms)

    @property
    def own(self) -> bool:
        """Whether the newest report is from the newest attempt."""
        return (self.task.live_generation, self.task.live_attempt) == (self.task.generation, self.task.attempt)

    def total(self, name: str) -> float:
        return self.totals.get(name, 0)

    def rate(self, value: float) -> float:
        return value if self._age_ms < _LIVE_MS and self.task.state == "RUNNING" else 0.0

    def spread(self, name: str, of: str) -> float | None:
        """Return min, max or avg; None if nothing was measured in the last minute."""
        measure = self.measures.get(name, {})
        if not measure.get("count") or self._age_ms >= _WINDOW_MS:
            return None
        return float(measure["sum"] / measure["count"] if of == "avg" else measure[of])

    def ratio(self, state: str, spent: str) -> float | None:
        """Return the share of the attempt's lifetime spent in a state. The time since its last report counts for its
        current state.
        """
        life = self.measures.get("life_ms", 0)
        if not self.own or not life:
            return None
        since = self._age_ms
        return float((self.measures.get(spent, 0) + (since if self.task.state == state else 0)) / (life + since))

    def since(self, time_ms: int) -> float | None:
        return max(0, self.now_ms - time_ms) / 1000 if time_ms else None

    @property
    def open_age(self) -> float:
        """Return the age of the open transaction in seconds, 0 if none is open or its task is not running."""
        up = self.own and self.task.state in ("RUNNING", "PAUSED")
        return (self.since(self.task.open_since_ms) or 0.0) if up else 0.0
