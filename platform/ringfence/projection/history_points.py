"""Aggregates the work of connectors, by minute for days and by hour for months, for the time axis.

Once a minute, the projector sums what tasks did in the past minutes (`projection.task_minutes`), and adds samples of
the present: open transactions, commit times, the source's lag, the age of the data. There is one row for each
connector and minute, and one for each connector and hour, so 200 connectors write 200 rows a minute. The row of no
connector ("") has the whole cluster's sums, worst state and oldest data, and shows that the platform was running: a
minute without it is a gap, not a zero.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.db import transaction
from django.db.models import Max, Min, Q, Sum

from ringfence.projection import progress_reports
from ringfence.projection.health import RETRYING
from ringfence.projection.models import Connector, HistoryPoint, Minute, Task
from ringfence.projection.task_minutes import minute_of, shown_state, worst

MINUTE: Final = 1
HOUR: Final = 60
KEEP_MINUTES_DAYS: Final = "RINGFENCE_HISTORY_MINUTES_DAYS"
KEEP_HOURS_DAYS: Final = "RINGFENCE_HISTORY_HOURS_DAYS"
DEFAULTS: Final = {KEEP_MINUTES_DAYS: 3, KEEP_HOURS_DAYS: 90}
NOBODY: Final = ""
AT_REST: Final = ("PAUSED", "STOPPED")
"""The data of such a connector grows older on purpose."""
FAILED: Final = "FAILED"
_LASTING: Final = (FAILED, RETRYING)
"""A task that is in such a state moves nothing, so it has no row for a minute."""

SUMS: Final = ("records", "commits", "aborted", "skipped", "dead_letters", "fences", "restarts", "failed")
_MORE_SUMS: Final = (*SUMS, "commit_sum_ms", "commit_count")
_LARGEST: Final = ("open_transactions", "commit_max_ms", "lag", "age_ms")
_COUNTED: Final = ("minutes", "state", *SUMS)
_FIELDS: Final = ("minutes", "state", *_MORE_SUMS, *_LARGEST, "lag_name")
_LATE_MINUTES: Final = 2
"""A minute's last reports have arrived after this many minutes, if the projection keeps up."""
_AGAIN_MINUTES: Final = 3
"""This many past minutes are summed again, so that late reports count."""
_BACK_MINUTES: Final = 26 * 60
_PRUNE_MINUTES: Final = 10


def kept_days(name: str) -> int:
    """Return a setting in days, at least one; the default if the value is invalid."""
    days = os.environ.get(name, "").strip()
    return max(1, int(days)) if days.isascii() and days.isdigit() and len(days) < 5 else DEFAULTS[name]


@dataclass(slots=True)
class Sample:
    """The maxima that were observed for a connector in one minute."""

    open_transactions: int = 0
    commit_sum_ms: float = 0.0
    commit_count: int = 0
    commit_max_ms: float = 0.0
    lag: float | None = None
    lag_name: str = ""
    age_ms: int | None = None

    def take(self, task: Mapping[str, Any], now_ms: int) -> None:
        """Include the current values of a task: `open_since_ms`, `data_as_of_ms` and `measures`."""
        measures = json.loads(task["measures"])
        if task["data_as_of_ms"]:
            self.age_ms = max(self.age_ms or 0, now_ms - task["data_as_of_ms"])
        commits = measures.get("commit_times_ms") or {}
        # The statistics cover the last 30 to 60 seconds, so the newest sample of a minute covers most of it.
        self.commit_sum_ms += float(commits.get("sum") or 0)
        self.commit_count += int(commits.get("count") or 0)
        self.commit_max_ms = max(self.commit_max_ms, float(commits.get("max") or 0))
        self.open_transactions += bool(task["open_since_ms"])
        if now_ms - measures.get("gauges_ms", 0) < progress_reports.FRESH_MS:
            for gauge in measures.get("gauges", []):
                if "lag" in gauge["name"] and (self.lag is None or gauge["value"] > self.lag):
                    self.lag, self.lag_name = float(gauge["value"]), gauge["name"]

    def most(self, other: "Sample") -> "Sample":
        """Combine two samples of one minute."""
        lag = max((self, other), key=lambda each: float("-inf") if each.lag is None else each.lag)
        commits = max((self, other), key=lambda each: each.commit_count)
        return Sample(
            max(self.open_transactions, other.open_transactions),
            commits.commit_sum_ms,
            commits.commit_count,
            max(self.commit_max_ms, other.commit_max_ms),
            lag.lag,
            lag.lag_name,
            max((each.age_ms for each in (self, other) if each.age_ms is not None), default=None),
        )


@dataclass(slots=True)
class HistoryRecorder:
    """The projector's recorder. Only one writes at a time; a second one would write the same."""

    _samples: dict[int, dict[str, Sample]] = field(default_factory=dict)
    _states: dict[int, dict[str, str]] = field(default_factory=dict)
    _minutes: set[int] = field(default_factory=set)
    _last_minute: int = -1

    def look(self, now_ms: int) -> None:
        """Sample, and write what is due. Call it a few times a minute."""
        minute = minute_of(now_ms)
        self._minutes.add(minute)
        for name, sample in _look_at_tasks(now_ms).items():
            samples = self._samples.setdefault(minute, {})
            samples[name] = sample.most(samples[name]) if name in samples else sample
        self._states[minute] = _look_at_states()
        due = minute - _LATE_MINUTES
        if due <= self._last_minute:
            return
        first = self._last_minute + 1 - _AGAIN_MINUTES if self._last_minute >= 0 else due - _BACK_MINUTES
        with transaction.atomic():
            self._write(first, due)
            if due % _PRUNE_MINUTES == 0:
                prune(now_ms)
        self._last_minute = due
        for old in (each for each in list(self._samples) if each < first):
            del self._samples[old]
        for old in (each for each in list(self._states) if each < first):
            del self._states[old]
        self._minutes = {each for each in self._minutes if each >= first}

    def _write(self, first: int, last: int) -> None:
        points = add_up(Minute.objects.filter(minute__gte=first, minute__lte=last).exclude(connector=NOBODY).values())
        sampled: set[tuple[str, int]] = set()
        for minute in range(max(first, min(self._minutes, default=last)), last + 1):
            for name, state in self._states.get(minute, {}).items():
                if (name, minute) not in points and state not in ("", "STOPPED"):
                    points[name, minute] = HistoryPoint(step=MINUTE, connector=name, minute=minute, state=state)
                elif state in _LASTING:  # its task has no row of a minute in which nothing changed
                    points[name, minute].state = worst((points[name, minute].state, state))
            for name, sample in self._samples.get(minute, {}).items():
                point = points.get((name, minute))
                if point is not None:
                    sampled.add((name, minute))
                    for each in Sample.__dataclass_fields__:
                        setattr(point, each, getattr(sample, each))
        # Keep the samples of another worker for those minutes.
        _put([point for key, point in points.items() if key not in sampled], _COUNTED)
        _put([points[key] for key in sampled])
        every = sum_up(points.values(), self._minutes & set(range(first, last + 1)))
        _put([point for minute, point in every.items() if minute not in self._minutes], _COUNTED)
        _put([point for minute, point in every.items() if minute in self._minutes])
        hours = {minute // HOUR * HOUR for minute in every}
        for hour in hours:
            _put(roll_up(hour))


def _look_at_states() -> dict[str, str]:
    tasks = Task.objects.filter(~Q(retry="") | Q(state=FAILED), known=True)
    troubles: dict[str, str] = {}
    for name, state, retry in tasks.values_list("connector", "state", "retry"):
        if (trouble := shown_state(state, retry)) in _LASTING:
            troubles[name] = worst((trouble, troubles.get(name, "")))
    rows = Connector.objects.filter(known=True).values_list("name", "state")
    return {name: worst((state, troubles.get(name, ""))) for name, state in rows}


def _look_at_tasks(now_ms: int) -> dict[str, Sample]:
    samples: dict[str, Sample] = {}
    for task in Task.objects.filter(known=True).values("connector", "open_since_ms", "measures", "data_as_of_ms"):
        samples.setdefault(task["connector"], Sample()).take(task, now_ms)
    return samples


def add_up(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], HistoryPoint]:
    """Combine the minutes of tasks and connectors by connector and minute: the worst state, and sums."""
    points: dict[tuple[str, int], HistoryPoint] = {}
    for row in rows:
        key = row["connector"], row["minute"]
        point = points.setdefault(key, HistoryPoint(step=MINUTE, connector=key[0], minute=key[1]))
        if row["state"]:
            point.state = worst((point.state, row["state"])) if point.state else row["state"]
        for name in SUMS:
            setattr(point, name, getattr(point, name) + row[name])
    return points


def sum_up(points: Iterable[HistoryPoint], minutes: Iterable[int]) -> dict[int, HistoryPoint]:
    """Return the cluster's point of each of these minutes, and of each with a connector's point."""
    every = {minute: HistoryPoint(step=MINUTE, connector=NOBODY, minute=minute) for minute in minutes}
    for point in points:
        total = every.setdefault(point.minute, HistoryPoint(step=MINUTE, connector=NOBODY, minute=point.minute))
        for name in ("open_transactions", "commit_sum_ms", "commit_count", *SUMS):
            setattr(total, name, getattr(total, name) + getattr(point, name))
        total.commit_max_ms = max(total.commit_max_ms, point.commit_max_ms)
        if point.state:
            total.state = worst((total.state, point.state)) if total.state else point.state
        if point.age_ms is not None and point.state not in AT_REST:
            total.age_ms = max(total.age_ms or 0, point.age_ms)
    return every


def roll_up(hour: int) -> list[HistoryPoint]:
    """Write the points of one hour from its current minutes."""
    rows = HistoryPoint.objects.filter(step=MINUTE, minute__gte=hour, minute__lt=hour + HOUR)
    sums = {name: Sum(name) for name in ("minutes", *_MORE_SUMS)}
    largest = {name: Max(name) for name in _LARGEST}
    names = Max("lag_name")
    totals: Iterable[Mapping[str, Any]] = (
        rows.values("connector").order_by().annotate(**{f"{k}_": v for k, v in (sums | largest).items()}, n=names)
    )
    states: dict[str, list[str]] = {}
    for name, state in rows.exclude(state="").values_list("connector", "state").distinct():
        states.setdefault(name, []).append(state)
    return [
        HistoryPoint(
            step=HOUR,
            connector=row["connector"],
            minute=hour,
            state=worst(states.get(row["connector"], ())),
            lag_name=row["n"] or "",
            **{name: row[f"{name}_"] for name in (*sums, *largest)},
        )
        for row in totals
    ]


def _put(points: Iterable[HistoryPoint], fields: Sequence[str] = _FIELDS) -> None:
    HistoryPoint.objects.bulk_create(
        list(points),
        update_conflicts=True,
        update_fields=fields,
        unique_fields=["connector", "step", "minute"],
        batch_size=40,
    )


def prune(now_ms: int) -> None:
    """Delete points that are older than the settings allow."""
    minute = minute_of(now_ms)
    for step, setting in ((MINUTE, KEEP_MINUTES_DAYS), (HOUR, KEEP_HOURS_DAYS)):
        HistoryPoint.objects.filter(step=step, minute__lt=minute - kept_days(setting) * 24 * 60).delete()


class Stored(NamedTuple):
    """newest: the last minute that has been summed; oldest: the first minute with a minute point; 0 if hour points do
    not go further back, so that none are needed.
    """

    newest: int | None
    oldest: int | None


def stored_minutes() -> Stored:
    """Return which minutes are stored; None for none."""
    is_minute = Q(step=MINUTE)
    bounds = HistoryPoint.objects.filter(connector=NOBODY).aggregate(
        newest=Max("minute", filter=is_minute),
        oldest=Min("minute", filter=is_minute),
        hour=Min("minute", filter=~is_minute),
    )
    oldest, hour = bounds["oldest"], bounds["hour"]
    if oldest is not None and (hour is None or hour >= oldest // HOUR * HOUR):
        oldest = 0
    return Stored(bounds["newest"], oldest)
