"""One time axis for the cluster, a connector and an incident: records, age of the data, states, dead letters, and what
was changed, fenced, lost or deleted. Drawn here, so that it is there without a script.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from ringfence.api.v1.history import LONGEST_DAYS, Scope, find_series
from ringfence.connectors.plural_forms import write_count
from ringfence.projection.health import RETRYING
from ringfence.projection.history_points import AT_REST
from ringfence.projection.task_minutes import worst

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
MOST_POINTS: Final = 180
_MOST_ROWS: Final = 61
_PRESETS: Final = (("1 h", 1), ("6 h", 6), ("24 h", 24), ("3 days", 72), ("30 days", 720))
_SHORT_HOLE: Final = 3
"""So many points without a measurement do not interrupt a line."""
_LABEL: Final = 19
"""The height of a lane's name, above its picture."""
_NEAR: Final = 1.5
"""Marks that are nearer to each other than this, in percent of the width, are drawn as one."""
_TONES: Final = {"RUNNING": "ok", "FAILED": "bad", RETRYING: "warn", **dict.fromkeys(AT_REST, "rest")}
_ICONS: Final = {
    "incident": "triangle-alert",
    "worker": "unplug",
    "topic": "trash-2",
    "delete": "trash-2",
    "config": "pencil",
    "action": "user",
    "fence": "fence",
}
"""By the kind of a mark, the most important first: it stands for those near to it."""


class Span(NamedTuple):
    """A range in milliseconds. hours: how long, if it follows the present; 0 if it is fixed."""

    from_ms: int
    to_ms: int
    hours: int

    @property
    def query(self) -> str:
        """The part of an address that leads to it again."""
        return f"hours={self.hours}" if self.hours else f"from={self.from_ms}&to={self.to_ms}"


def read_span(query: Mapping[str, str], hours: int, now_ms: int | None = None) -> Span:
    """Return the range of an address: `from` and `to`, or `hours` up to now. hours: without a valid range."""
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    from_ms, to_ms = read_ms(query, "from"), min(read_ms(query, "to") or now_ms, now_ms)
    if 0 < from_ms < to_ms <= from_ms + LONGEST_DAYS * 24 * HOUR_MS:
        return Span(from_ms, to_ms, 0)
    length = read_ms(query, "hours")
    hours = length if 0 < length <= _PRESETS[-1][1] else hours
    return Span(now_ms - hours * HOUR_MS, now_ms, hours)


def is_asked(query: Mapping[str, str]) -> bool:
    """Return whether an address names a range."""
    return any(read_ms(query, name) for name in ("from", "hours"))


def read_ms(query: Mapping[str, str], name: str) -> int:
    """Return a parameter's number; 0 without one."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the picture. kind: area, line, bar or state; top: where it begins, and its picture; most: what its
    highest value is; path, area, before: SVG path data, before: of the period before; cells: (x, width, tone).
    """

    key: str
    word: str
    kind: str
    top: int
    height: int
    most: str = ""
    path: str = ""
    area: str = ""
    before: str = ""
    cells: Sequence[tuple[float, float, str]] = ()

    @property
    def picture_top(self) -> int:
        return self.top + _LABEL

    @property
    def picture_height(self) -> int:
        return self.height - _LABEL - 4

    @property
    def label_y(self) -> int:
        return self.top + 13


@dataclass(frozen=True, slots=True)
class MarkView:
    """A mark, or several near to each other. x: in percent."""

    x: float
    kind: str
    icon: str
    text: str


class Preset(NamedTuple):
    """A range to choose."""

    word: str
    hours: int
    is_current: bool


class Row(NamedTuple):
    """A row of the table, with the values in words."""

    time_ms: int
    records: int
    age_ms: int | None
    bad: int
    state: str


@dataclass(frozen=True, slots=True)
class Axis:
    """All that the template needs. address: the page with this axis; moment: the address that tells about a moment."""

    span: Span
    address: str
    moment: str
    count: int
    lanes: Sequence[Lane]
    marks: Sequence[MarkView]
    changes: Sequence[Mapping[str, Any]]
    gaps: Sequence[tuple[float, float]]
    summary: str
    rows: Sequence[Row]
    data: Mapping[str, Any]
    presets: Sequence[Preset]
    ticks: Sequence[int] = field(default_factory=tuple)

    @property
    def marks_top(self) -> int:
        return self.lanes[-1].top + self.lanes[-1].height

    @property
    def height(self) -> int:
        return self.marks_top + 26

    @property
    def points(self) -> str:
        """What the script reads: the values of each lane."""
        return json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))

    @property
    def words(self) -> str:
        """How long a range that follows the present is."""
        hours = self.span.hours
        return "hour" if hours == 1 else f"{hours} hours" if hours <= 24 else f"{hours // 24} days"

    @property
    def is_long(self) -> bool:
        """Return whether times need their day."""
        return self.span.to_ms - self.span.from_ms > 24 * HOUR_MS

    @property
    def has_before(self) -> bool:
        """Return whether the period before is drawn."""
        return any(lane.before for lane in self.lanes)

    @property
    def earlier(self) -> str:
        """The query of the period before."""
        length = self.span.to_ms - self.span.from_ms
        return f"from={max(1, self.span.from_ms - length)}&to={self.span.from_ms}"

    @property
    def later(self) -> str:
        """The query of the period after; "" if this one ends now."""
        length = self.span.to_ms - self.span.from_ms
        return "" if self.span.hours else f"from={self.span.to_ms}&to={self.span.to_ms + length}"

    @property
    def last(self) -> int:
        return self.count - 1


@dataclass(frozen=True, slots=True)
class _Plan:
    """A lane to be. take: the value of a point; tell: a value in words."""

    key: str
    word: str
    kind: str
    height: int
    unit: str
    take: Callable[[Mapping[str, Any]], float | None]
    tell: Callable[[float], str]
    always: bool = False


def tell_number(value: float) -> str:
    """Write a number with at most one decimal."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.1f}"


def tell_duration(ms: float) -> str:
    """Write a duration with its unit."""
    for limit, divisor, unit in ((1000, 1, "ms"), (MINUTE_MS, 1000, "s"), (HOUR_MS, MINUTE_MS, "min")):
        if ms < limit:
            return f"{ms / divisor:.0f} {unit}"
    return f"{ms / HOUR_MS:.1f} h" if ms < 48 * HOUR_MS else f"{ms / (24 * HOUR_MS):.0f} d"


def _of(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda point: point[name]


def _bad(point: Mapping[str, Any]) -> float | None:
    return None if point["records"] is None else point["dead_letters"] + point["skipped"]


def _plans(lag_name: str, detailed: bool) -> list[_Plan]:
    plans = [
        _Plan("records", "Records per minute", "area", 92, "/min", _of("per_minute"), tell_number, always=True),
        _Plan("age", "Oldest data", "line", 58, "", _of("age_ms"), tell_duration),
    ]
    if detailed:
        plans += [
            _Plan("commit", "Time of a commit", "line", 54, "", _of("commit_ms"), tell_duration),
            _Plan("open", "Open transactions", "area", 46, "", _of("open_transactions"), tell_number),
            _Plan("lag", f"Source lag ({lag_name})", "line", 54, "", _of("lag"), tell_number),
        ]
    return [*plans, _Plan("bad", "Dead letters and skipped records", "bar", 50, "", _bad, tell_number)]


def draw_axis(
    scope: Scope, span: Span, address: str, *, moment: str = "", detailed: bool = False, incident_ms: int = 0
) -> Axis:
    """Return the axis of a range. detailed: with lanes about commits; incident_ms: when an incident began."""
    series = find_series(scope, span.from_ms, span.to_ms, MOST_POINTS, with_before=True)
    step_ms, now_ms = series["step_seconds"] * 1000, int(time.time() * 1000)
    points = _per_minute(series["points"], step_ms, now_ms)
    before = _per_minute(series["before"], step_ms, now_ms)
    marks = [*series["marks"]]
    if incident_ms:
        marks.append({"time_ms": incident_ms, "kind": "incident", "text": "The incident began"})
    top, lanes, readings = 0, [], []
    for plan in _plans(series["lag_name"], detailed):
        values = [plan.take(point) for point in points]
        if plan.always or any(values) or (plan.kind == "line" and any(value is not None for value in values)):
            lanes.append(_draw(plan, values, [plan.take(point) for point in before], top))
            readings.append({"word": plan.word, "key": plan.key, "unit": plan.unit, "values": _round(values)})
            top += plan.height
    lanes.append(_draw_states(points, top))
    readings.append({"word": "State", "key": "state", "unit": "", "values": [point["state"] for point in points]})
    width = series["to_ms"] - series["from_ms"]
    changes = [mark for mark in marks if series["from_ms"] <= mark["time_ms"] < series["to_ms"]]
    return Axis(
        span,
        address,
        moment,
        len(points),
        lanes,
        _group_marks(changes, series["from_ms"], width),
        changes[::-1],
        _find_gaps(points),
        _summarise(points, before, span),
        _write_rows(points),
        {
            "from": series["from_ms"],
            "step": step_ms,
            "lanes": readings,
            "marks": [[mark["time_ms"], mark["text"]] for mark in changes],
        },
        [Preset(word, hours, hours == span.hours) for word, hours in _PRESETS],
        [series["from_ms"] + width * quarter // 4 for quarter in range(5)],
    )


def _per_minute(points: Sequence[dict[str, Any]], step_ms: int, now_ms: int) -> list[dict[str, Any]]:
    """Add to each point its records per minute. The running one has not lasted as long as the others."""
    result = []
    for point in points:
        lasted_ms = max(15_000, min(step_ms, now_ms - point["time_ms"]))
        records = point["records"]
        result.append({**point, "per_minute": None if records is None else records * MINUTE_MS / lasted_ms})
    return result


def _round(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else int(value) if value == int(value) else round(value, 1) for value in values]


def _draw(plan: _Plan, values: Sequence[float | None], before: Sequence[float | None], top: int) -> Lane:
    peak = max((value for value in (*values, *before) if value is not None), default=0.0)
    height = plan.height - _LABEL - 4
    most = f"{plan.tell(peak)}{plan.unit}" if peak else ""
    if plan.kind == "bar":
        cells = [(index, value / peak * height, "bad") for index, value in enumerate(values) if value]
        return Lane(plan.key, plan.word, plan.kind, top, plan.height, most, cells=cells)
    if plan.kind == "line":
        values = _bridge(values)
    path, area = _paths(values, peak, height)
    return Lane(
        plan.key, plan.word, plan.kind, top, plan.height, most, path, area if plan.kind == "area" else "",
        _paths(before, peak, height)[0],
    )  # fmt: skip


def _bridge(values: Sequence[float | None]) -> list[float | None]:
    """Return the values with the last one in short holes, in which nothing was measured."""
    bridged = list(values)
    for index, value in enumerate(values):
        following = values[index + 1 : index + 1 + _SHORT_HOLE]
        if value is None and index and any(each is not None for each in following):
            bridged[index] = bridged[index - 1]
    return bridged


def _paths(values: Sequence[float | None], peak: float, height: int) -> tuple[str, str]:
    """Return a line and the area below it, interrupted where nothing is known. A unit is a point wide."""
    line, area = "", ""
    for measured, run in groupby(enumerate(values), lambda each: each[1] is not None):
        if not measured:
            continue
        places = [(index + 0.5, height - 1 - (value or 0) / (peak or 1) * (height - 2)) for index, value in run]
        first, last = places[0], places[-1]
        places = [(first[0] - 0.5, first[1]), *places, (last[0] + 0.5, last[1])]
        path = "L".join(f"{x:g} {y:.1f}" for x, y in places)
        line += f"M{path}"
        area += f"M{places[0][0]:g} {height}L{path}L{places[-1][0]:g} {height}Z"
    return line, area


def _draw_states(points: Sequence[Mapping[str, Any]], top: int) -> Lane:
    tones = [_TONES.get(point["state"], "motion") if point["state"] else "" for point in points]
    cells = []
    for tone, run in groupby(enumerate(tones), lambda each: each[1]):
        indexes = [index for index, _ in run]
        if tone:
            cells.append((indexes[0], len(indexes), tone))
    return Lane("state", "State", "state", top, _LABEL + 18, cells=cells)


def _group_marks(marks: Sequence[Mapping[str, Any]], from_ms: int, width: int) -> list[MarkView]:
    groups: list[tuple[float, list[Mapping[str, Any]]]] = []
    for mark in sorted(marks, key=lambda each: int(each["time_ms"])):
        x = (mark["time_ms"] - from_ms) / width * 100
        if groups and x - groups[-1][0] < _NEAR:
            groups[-1][1].append(mark)
        else:
            groups.append((x, [mark]))
    views = []
    for x, group in groups:
        kinds = {mark["kind"] for mark in group}
        kind = next(each for each in _ICONS if each in kinds)
        views.append(MarkView(round(x, 2), kind, _ICONS[kind], "; ".join(mark["text"] for mark in group[:8])))
    return views


def _find_gaps(points: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Return where nothing was recorded, in percent: x and width."""
    gaps = []
    for missing, run in groupby(enumerate(points), lambda each: each[1]["records"] is None):
        indexes = [index for index, _ in run]
        if missing:
            gaps.append((round(indexes[0] / len(points) * 100, 3), round(len(indexes) / len(points) * 100, 3)))
    return gaps


def _sum(points: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(point[name] or 0 for point in points)


def _summarise(points: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]], span: Span) -> str:
    records, earlier = _sum(points, "records"), _sum(before, "records")
    sentence = write_count(records, "record")
    count = sum(point["records"] is not None for point in before)
    if earlier and count >= len(before) * 0.9:
        change = round((records - earlier) / earlier * 100)
        sentence += f", {abs(change)} % {'more' if change > 0 else 'fewer'}" if change else ", as many"
        sentence += f" {'than' if change else 'as'} in the period before"
    parts = [sentence]
    ages = [point["age_ms"] for point in points if point["age_ms"] is not None]
    if ages:
        parts.append(f"data at most {tell_duration(max(ages))} old")
    for name, word in (("dead_letters", "dead letter"), ("skipped", "skipped record")):
        if bad := _sum(points, name):
            parts.append(write_count(bad, word))
    return "; ".join(parts) + "."


def _write_rows(points: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the newest first; several points a row where there are many. What is not known has no row."""
    each = -(-len(points) // _MOST_ROWS) or 1
    rows = []
    for at in range(0, len(points), each):
        group = [point for point in points[at : at + each] if point["records"] is not None]
        if group:
            ages = [point["age_ms"] for point in group if point["age_ms"] is not None]
            bad = _sum(group, "dead_letters") + _sum(group, "skipped")
            state = worst(point["state"] for point in group if point["state"])
            rows.append(Row(group[0]["time_ms"], _sum(group, "records"), max(ages, default=None), bad, state))
    return rows[::-1]
