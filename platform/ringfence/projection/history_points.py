"""What connectors did, minute by minute for days and hour by hour for months: the tables behind the History tab.

Once a minute the projector adds up what tasks did in the minutes that are over (`projection.minutes`), with what only a
look at the present can tell: open transactions, how long commits take, the source's lag. One row a connector and minute
and one a connector and hour, so 200 connectors write 200 rows a minute. The row of no connector ("") says that somebody
was there to look: a minute without it is a gap, not a zero.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import transaction
from django.db.models import Max, Min, Sum

from ringfence.projection import source_metrics
from ringfence.projection.minutes import minute_of, worst
from ringfence.projection.models import Connector, HistoryPoint, Minute, Task

MINUTE: Final = 1
HOUR: Final = 60
KEEP_MINUTES_DAYS: Final = "RINGFENCE_HISTORY_MINUTES_DAYS"
KEEP_HOURS_DAYS: Final = "RINGFENCE_HISTORY_HOURS_DAYS"
DEFAULTS: Final = {KEEP_MINUTES_DAYS: 3, KEEP_HOURS_DAYS: 90}
NOBODY: Final = ""

SUMS: Final = ("records", "commits", "aborted", "skipped", "dead_letters", "fences", "restarts", "failed")
_MORE_SUMS: Final = (*SUMS, "commit_sum_ms", "commit_count")
_LARGEST: Final = ("open_transactions", "commit_max_ms", "lag")
_COUNTED: Final = ("minutes", "state", *SUMS)
_FIELDS: Final = ("minutes", "state", *_MORE_SUMS, *_LARGEST, "lag_name")
_LATE_MINUTES: Final = 2
"""So many minutes after a minute its last reports are here, if the projection keeps up."""
_AGAIN_MINUTES: Final = 3
"""So many minutes are added up again: what comes late is not lost."""
_BACK_MINUTES: Final = 26 * 60
_PRUNE_MINUTES: Final = 10


def kept_days(name: str) -> int:
    """A setting's value: days, at least one; its default for what cannot be meant."""
    given = os.environ.get(name, "").strip()
    return max(1, int(given)) if given.isascii() and given.isdigit() and len(given) < 5 else DEFAULTS[name]


@dataclass(slots=True)
class Sample:
    """The largest that was seen of a connector in one minute."""

    open_transactions: int = 0
    commit_sum_ms: float = 0.0
    commit_count: int = 0
    commit_max_ms: float = 0.0
    lag: float | None = None
    lag_name: str = ""

    def take(self, task: Mapping[str, Any], now_ms: int) -> None:
        """One task as it is now: `open_since_ms` and `measures`."""
        measures = json.loads(task["measures"])
        commits = measures.get("commit_times_ms") or {}
        # The spread is of the last half to whole minute: the newest look at the minute says most.
        self.commit_sum_ms += float(commits.get("sum") or 0)
        self.commit_count += int(commits.get("count") or 0)
        self.commit_max_ms = max(self.commit_max_ms, float(commits.get("max") or 0))
        self.open_transactions += bool(task["open_since_ms"])
        if now_ms - measures.get("gauges_ms", 0) < source_metrics.FRESH_MS:
            for gauge in measures.get("gauges", []):
                if "lag" in gauge["name"] and (self.lag is None or gauge["value"] > self.lag):
                    self.lag, self.lag_name = float(gauge["value"]), gauge["name"]

    def most(self, other: "Sample") -> "Sample":
        """Of two looks at one minute."""
        lag = max((self, other), key=lambda each: float("-inf") if each.lag is None else each.lag)
        commits = max((self, other), key=lambda each: each.commit_count)
        return Sample(
            max(self.open_transactions, other.open_transactions),
            commits.commit_sum_ms,
            commits.commit_count,
            max(self.commit_max_ms, other.commit_max_ms),
            lag.lag,
            lag.lag_name,
        )


@dataclass(slots=True)
class HistoryRecorder:
    """The projector's. One at a time writes; a second one would write the same."""

    _samples: dict[int, dict[str, Sample]] = field(default_factory=dict)
    _states: dict[int, dict[str, str]] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _written: int = -1

    def look(self, now_ms: int) -> None:
        """To be called a few times a minute."""
        minute = minute_of(now_ms)
        self._seen.add(minute)
        for name, sample in _look_at_tasks(now_ms).items():
            samples = self._samples.setdefault(minute, {})
            samples[name] = sample.most(samples[name]) if name in samples else sample
        known = Connector.objects.filter(known=True).values_list("name", "state")
        self._states[minute] = dict(known)
        due = minute - _LATE_MINUTES
        if due <= self._written:
            return
        first = self._written + 1 - _AGAIN_MINUTES if self._written >= 0 else due - _BACK_MINUTES
        with transaction.atomic():
            self._write(first, due)
            if due % _PRUNE_MINUTES == 0:
                prune(now_ms)
        self._written = due
        for old in (each for each in list(self._samples) if each < first):
            del self._samples[old]
        for old in (each for each in list(self._states) if each < first):
            del self._states[old]
        self._seen = {each for each in self._seen if each >= first}

    def _write(self, first: int, last: int) -> None:
        points = add_up(Minute.objects.filter(minute__gte=first, minute__lte=last).exclude(connector=NOBODY).values())
        sampled: set[tuple[str, int]] = set()
        for minute in range(max(first, min(self._seen, default=last)), last + 1):
            for name, state in self._states.get(minute, {}).items():
                if (name, minute) not in points and state not in ("", "STOPPED"):
                    points[name, minute] = HistoryPoint(step=MINUTE, connector=name, minute=minute, state=state)
            for name, sample in self._samples.get(minute, {}).items():
                point = points.get((name, minute))
                if point is not None:
                    sampled.add((name, minute))
                    for each in Sample.__dataclass_fields__:
                        setattr(point, each, getattr(sample, each))
            if minute in self._seen:
                points[NOBODY, minute] = HistoryPoint(step=MINUTE, connector=NOBODY, minute=minute)
        # What another worker saw of those minutes stays.
        _put([point for key, point in points.items() if key not in sampled], _COUNTED)
        _put([points[key] for key in sampled])
        hours = {minute // HOUR * HOUR for _, minute in points}
        for hour in hours:
            _put(roll_up(hour))


def _look_at_tasks(now_ms: int) -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for task in Task.objects.filter(known=True).values("connector", "open_since_ms", "measures"):
        found.setdefault(task["connector"], Sample()).take(task, now_ms)
    return found


def add_up(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], HistoryPoint]:
    """The minutes of tasks and connectors as one of each connector: worst state, sums. By connector and minute."""
    points: dict[tuple[str, int], HistoryPoint] = {}
    for row in rows:
        key = row["connector"], row["minute"]
        point = points.setdefault(key, HistoryPoint(step=MINUTE, connector=key[0], minute=key[1]))
        if row["state"]:
            point.state = worst((point.state, row["state"])) if point.state else row["state"]
        for name in SUMS:
            setattr(point, name, getattr(point, name) + row[name])
    return points


def roll_up(hour: int) -> list[HistoryPoint]:
    """The points of one hour, made of its minutes as they are now."""
    rows = HistoryPoint.objects.filter(step=MINUTE, minute__gte=hour, minute__lt=hour + HOUR)
    sums = {name: Sum(name) for name in ("minutes", *_MORE_SUMS)}
    largest = {name: Max(name) for name in _LARGEST}
    names = Max("lag_name")
    found: Iterable[Mapping[str, Any]] = (
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
        for row in found
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
    """Drop what is older than the settings say."""
    minute = minute_of(now_ms)
    for step, setting in ((MINUTE, KEEP_MINUTES_DAYS), (HOUR, KEEP_HOURS_DAYS)):
        HistoryPoint.objects.filter(step=step, minute__lt=minute - kept_days(setting) * 24 * 60).delete()


def newest_minute() -> int | None:
    """The last one that is added up: those after it are still to come."""
    found: int | None = HistoryPoint.objects.filter(step=MINUTE, connector=NOBODY).aggregate(m=Max("minute"))["m"]
    return found


def oldest_minute() -> int | None:
    """From where on points of single minutes say all that is known: 0 where those of hours do not go further back."""
    rows = HistoryPoint.objects.filter(connector=NOBODY)
    minute: int | None = rows.filter(step=MINUTE).aggregate(m=Min("minute"))["m"]
    hour: int | None = rows.filter(step=HOUR).aggregate(m=Min("minute"))["m"]
    if minute is not None and (hour is None or hour >= minute // HOUR * HOUR):
        return 0
    return minute
