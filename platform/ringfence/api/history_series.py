"""A connector's history as series on one time axis, with its configuration changes and fencing rounds, for the API and
the History tab.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Min

from ringfence.history.models import ConfigVersion
from ringfence.http.errors import bad_request
from ringfence.projection.history_points import HOUR, MINUTE, SUMS, newest_minute, oldest_minute
from ringfence.projection.models import GenerationRow, HistoryPoint
from ringfence.projection.task_minutes import worst

MOST_POINTS: Final = 720
LONGEST_DAYS: Final = 400
_MINUTE_MS: Final = 60_000
_MOST_MARKS: Final = 500
_LATE_MINUTES: Final = 5

_COLUMNS: Final = (
    "minute", "minutes", "state", *SUMS, "open_transactions", "commit_sum_ms", "commit_count", "commit_max_ms", "lag",
    "lag_name",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Range:
    """Minutes since the epoch, with the end excluded. step: minutes per point; source: minutes per row."""

    first: int
    end: int
    step: int
    source: int


def oldest_ms(connector: str) -> int | None:
    """Return the time of the connector's oldest stored data; None if there is none."""
    minute: int | None = HistoryPoint.objects.filter(connector=connector).aggregate(m=Min("minute"))["m"]
    return None if minute is None else minute * _MINUTE_MS


def choose_range(from_ms: int, to_ms: int, oldest: int | None) -> Range:
    """Choose a range of whole points, at most MOST_POINTS; in hours if the minutes are no longer stored. Pure."""
    first, end = from_ms // _MINUTE_MS, -(-to_ms // _MINUTE_MS)
    step = max(1, -(-(end - first) // MOST_POINTS))
    source = MINUTE if oldest is not None and first >= oldest and step < HOUR else HOUR
    step = max(step, source)
    if source == HOUR:
        step = -(-step // HOUR) * HOUR
    return Range(first // step * step, -(-end // step) * step, step, source)


def put_together(rows: Iterable[Mapping[str, Any]], present: Mapping[int, int], span: Range) -> list[dict[str, Any]]:
    """Return one point per step. All of its series are None if nothing was recorded then, and no report came later.
    Pure.

    rows: the connector's; present: by minute, for how many minutes a recorder was running.
    """
    buckets: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        buckets.setdefault((row["minute"] - span.first) // span.step, []).append(row)
    there = {(minute - span.first) // span.step for minute, count in present.items() if count}
    return [
        _point(span.first + at * span.step, buckets.get(at, []), at in there or at in buckets)
        for at in range((span.end - span.first) // span.step)
    ]


def _point(minute: int, rows: Sequence[Mapping[str, Any]], is_known: bool) -> dict[str, Any]:
    if not is_known:
        blank = dict.fromkeys((*SUMS, "open_transactions", "commit_ms", "commit_max_ms", "lag", "state"))
        return {"time_ms": minute * _MINUTE_MS, **blank}
    commits = sum(row["commit_count"] for row in rows)
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    return {
        "time_ms": minute * _MINUTE_MS,
        "state": worst(row["state"] for row in rows if row["state"]),
        **{name: sum(row[name] for row in rows) for name in SUMS},
        "open_transactions": max((row["open_transactions"] for row in rows), default=0),
        "commit_ms": sum(row["commit_sum_ms"] for row in rows) / commits if commits else None,
        "commit_max_ms": max((row["commit_max_ms"] for row in rows), default=0) if commits else None,
        "lag": max(lags, default=None),
    }


def find_series(name: str, from_ms: int, to_ms: int) -> dict[str, Any]:
    """Return points and marks between two times. Raises `ConnectError` for an invalid range."""
    if not 0 <= from_ms < to_ms or to_ms - from_ms > LONGEST_DAYS * 86_400_000:
        raise bad_request(f"from must be before to, by at most {LONGEST_DAYS} days; both in milliseconds.")
    span = choose_range(from_ms, max(from_ms + 1, min(to_ms, _known_until(int(time.time() * 1000)))), oldest_minute())
    between = HistoryPoint.objects.filter(step=span.source, minute__gte=span.first, minute__lt=span.end)
    present = dict(between.filter(connector="").values_list("minute", "minutes"))
    rows = list(between.filter(connector=name).order_by("minute").values(*_COLUMNS))
    names = sorted({row["lag_name"] for row in rows if row["lag_name"]})
    return {
        "from_ms": span.first * _MINUTE_MS,
        "to_ms": span.end * _MINUTE_MS,
        "step_seconds": span.step * 60,
        "lag_name": names[0] if names else "",
        "points": put_together(rows, present, span),
        "marks": _find_marks(name, span.first * _MINUTE_MS, span.end * _MINUTE_MS),
    }


def _known_until(now_ms: int) -> int:
    """Return the end of the aggregated minutes: later ones are not gaps."""
    newest = newest_minute()
    if newest is None or now_ms // _MINUTE_MS - newest > _LATE_MINUTES:
        return now_ms
    return (newest + 1) * _MINUTE_MS


def _find_marks(name: str, from_ms: int, to_ms: int) -> list[dict[str, Any]]:
    """Return configuration changes and fencing rounds, in order of time."""
    versions = ConfigVersion.objects.filter(connector=name, time_ms__gte=from_ms, time_ms__lt=to_ms)
    rounds = GenerationRow.objects.filter(connector=name, stage="done", ended_ms__gte=from_ms, ended_ms__lt=to_ms)
    marks = [
        {"time_ms": at, "kind": "config", "number": number, "text": f"Configuration version {number}"}
        for at, number in versions.order_by("-time_ms").values_list("time_ms", "number")[:_MOST_MARKS]
    ]
    marks += [
        {"time_ms": at, "kind": "fence", "number": number, "text": f"Generation {number} fenced the older ones"}
        for at, number in rounds.order_by("-ended_ms").values_list("ended_ms", "number")[:_MOST_MARKS]
    ]
    return sorted(marks, key=lambda mark: int(str(mark["time_ms"])))


def version_at(name: str, time_ms: int) -> int | None:
    """Return the number of the connector's configuration version at that time; None if unknown."""
    rows = ConfigVersion.objects.filter(connector=name, time_ms__lte=time_ms).order_by("-number")
    return rows.values_list("number", flat=True).first()
