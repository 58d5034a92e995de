"""The work of each task in each minute, for strips, curves and "longer than usual".

A row is written only for a minute in which something happened; `strips` fills the minutes between. The rows of a
connector itself (its state, its fencing rounds) have task ITSELF; those of connector EVERYTHING hold the sums of all
tasks of all connectors, so that a curve of the whole cluster need not add them up.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ringfence.projection.health import RETRYING
from ringfence.projection.models import Minute, Task
from ringfence.projection.upserts import upsert

ITSELF = -1
EVERYTHING = ""
KEPT = 26 * 60
"""How many minutes are kept: slightly more than a day, so that a daily event appears twice."""
MOST_ROWS = 500_000
"""With more rows than this the oldest minutes go earlier, but never those of the last SHOWN + 1."""
SHOWN = 60

COUNTS = ("records", "commits", "aborted", "errors", "skipped", "dead_letters", "fences", "restarts", "failed")
_COMMITTED = ("records", "skipped", "dead_letters")
WORST_FIRST = ("FAILED", RETRYING, "RESTARTING", "UNASSIGNED", "PAUSED", "STOPPED", "RUNNING", "")
UNKNOWN = "UNKNOWN"
"""Stands for an unknown state if only the worst is reported."""
RANK = {state: rank for rank, state in enumerate(WORST_FIRST)}

Key = tuple[str, int]
"""(connector, task): task ITSELF for the connector."""
States = dict[Key, tuple[str, int]]
"""The state of each existing connector and task, and since when."""


def worst(states: Iterable[str]) -> str:
    """Return the most severe state; an unknown one is the worst. "" for none."""
    return min(states, key=lambda state: RANK.get(state, -1), default="")


def shown_state(state: str, refused: object) -> str:
    """Return RETRYING in place of RUNNING if its source or Kafka refuses: `refused` is true, or not empty."""
    return RETRYING if refused and state == "RUNNING" else state


def state_of(state: str, since_ms: int, retry: str) -> tuple[str, int]:
    """Return a task's `shown_state` and since when. All three are its row's."""
    state_now = shown_state(state, retry)
    return state_now, int(json.loads(retry)["since_ms"]) if state_now != state else since_ms


def minute_of(time_ms: int) -> int:
    """Return the minute, counted since the epoch."""
    return time_ms // 60_000


def _before(state: str, since_ms: int, time_ms: int) -> str:
    """Return the state in which the minute of `time_ms` began, if this state shows it; else "" for unknown."""
    return state if since_ms and minute_of(since_ms) < minute_of(time_ms) else ""


@dataclass(slots=True)
class _Gain:
    """The increment of a row. began: the state in which the minute began, if this is its first increment."""

    began: str
    state: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))


class Minutes:
    """The increments of one batch of records, written once, inside the batch's transaction."""

    def __init__(self) -> None:
        self._gains: dict[tuple[str, int, int], _Gain] = {}
        self.bad: set[str] = set()
        """Connectors that skipped records or wrote dead letters."""

    def _gain(self, key: Key, time_ms: int, began: str, state: str) -> dict[str, int]:
        gain = self._gains.setdefault((*key, minute_of(time_ms)), _Gain(began, state))
        gain.state = worst((gain.state, state))
        return gain.counts

    def record_report(self, task: Task, time_ms: int, gained: Mapping[str, int]) -> None:
        """Add a progress report, which only a running task sends. gained: transactions, aborted, errors."""
        newest, since_ms = state_of(task.state, task.since_ms, task.retry)
        # The row may have a later state than the report's: topics are read in parallel.
        state = newest if newest in ("PAUSED", RETRYING) and since_ms <= time_ms else "RUNNING"
        own = self._gain((task.connector, task.number), time_ms, _before(state, since_ms, time_ms), state)
        every = self._gain((EVERYTHING, ITSELF), time_ms, "", "")
        for counts in (own, every):
            counts["commits"] += gained["transactions"]
            counts["aborted"] += gained["aborted"]
            counts["errors"] += gained["errors"]

    def record_commits(self, key: Key, time_ms: int, gained: Mapping[str, int], state: str, since_ms: int) -> None:
        """Add what was committed: records, skipped, dead_letters. state: the task's, since `since_ms`."""
        if gained.get("skipped") or gained.get("dead_letters"):
            self.bad.add(key[0])
        if not any(gained.get(name) for name in _COMMITTED):
            return
        own = self._gain(key, time_ms, _before(state, since_ms, time_ms), "RUNNING")
        every = self._gain((EVERYTHING, ITSELF), time_ms, "", "")
        for counts in (own, every):
            for name in _COMMITTED:
                counts[name] += gained.get(name, 0)

    def record_change(self, key: Key, before: str, now: str, time_ms: int, *, again: bool = False) -> None:
        """Add a change of state. before: "" for none; again: it is another attempt of the same generation."""
        if before == now and not again:
            return
        counts = self._gain(key, time_ms, before, worst((before, now)) if before else now)
        gain = self._gains[*key, minute_of(time_ms)]
        gain.began = gain.began or before
        counts["restarts"] += again
        counts["failed"] += now == "FAILED" != before

    def record_fence(self, connector: str, time_ms: int, state: str, since_ms: int) -> None:
        """Add a finished fencing round. state: the connector's, since `since_ms`."""
        self._gain((connector, ITSELF), time_ms, _before(state, since_ms, time_ms), state)["fences"] += 1

    def write(self) -> None:
        """Add to the rows, with two queries for up to a hundred of them."""
        if not self._gains:
            return
        connectors, tasks, minutes = map(set, zip(*self._gains, strict=True))
        rows = {
            (row.connector, row.task, row.minute): row
            for row in Minute.objects.filter(connector__in=connectors, task__in=tasks, minute__in=minutes)
        }
        for key, gain in self._gains.items():
            row = rows.get(key)
            if row is None:
                row = rows[key] = Minute(connector=key[0], task=key[1], minute=key[2], began=gain.began)
            row.state = worst((row.state, gain.state))
            for name, count in gain.counts.items():
                setattr(row, name, getattr(row, name) + count)
        upsert([rows[key] for key in self._gains], ("state", *COUNTS), ("connector", "minute", "task"))


def prune(now_ms: int) -> None:
    """Delete minutes that are too old, and surplus ones."""
    minute = minute_of(now_ms)
    Minute.objects.filter(minute__lt=minute - KEPT).delete()
    if Minute.objects.count() > MOST_ROWS:
        newest = Minute.objects.order_by("-minute").values_list("minute", flat=True)
        Minute.objects.filter(minute__lte=min(newest[MOST_ROWS], minute - SHOWN - 1)).delete()
