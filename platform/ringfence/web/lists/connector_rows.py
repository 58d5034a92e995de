"""The rows of the list: connectors with their tasks' reports. A constant number of queries for any number of rows.

The last hour is a strip of one-minute cells, with the same information as text. Small charts of numbers over time are
SVG paths. Both are drawn on the server, so that pages need no chart library.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from ringfence.connectors.plural_forms import write_count
from ringfence.projection.health import KnownHealth, bad_records, find_data_age, known_health, reason
from ringfence.projection.models import Connector, Task
from ringfence.projection.record_totals import find_reported
from ringfence.projection.slots import MAY_WAIT, find_waiting
from ringfence.projection.task_minutes import Hour, hours
from ringfence.web.state_badges import Badge, Severity, look_of, task_look

SPAN_SECONDS = 90
WIDTH, HEIGHT = 100.0, 28.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line over time in a box of WIDTH x HEIGHT. line, area: SVG path data."""

    line: str
    area: str
    peak: float
    last: float

    @property
    def flat(self) -> bool:
        return self.peak <= 0


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar in a box of 60 x HEIGHT."""

    x: float
    y: float
    height: float
    value: int
    aborted: int
    ago: int


def rates(tasks: Iterable[Task], now_ms: int, step: int = 3) -> list[float]:
    """Return the total records per second of these tasks, one value for each `step` seconds of the last SPAN_SECONDS.

    Buckets begin at whole multiples of `step`, so that a redrawn chart keeps its past.
    """
    end = (now_ms // 1000 - 2) // step * step  # the last reports are still in transit
    start = end - SPAN_SECONDS
    sums = [0.0] * (SPAN_SECONDS // step)
    for task in tasks:
        for second, records, *_ in json.loads(task.recent):
            if start <= second < end:
                sums[(second - start) // step] += records
    return [total / step for total in sums]


def line(values: Sequence[float]) -> Line:
    """Draw the values from left to right, scaled to the largest."""
    peak = max(values, default=0.0)
    if len(values) < 2:
        return Line("", "", peak, values[-1] if values else 0.0)
    scale = (HEIGHT - 3) / peak if peak > 0 else 0.0
    step = WIDTH / (len(values) - 1)
    points = [f"{index * step:.1f} {HEIGHT - 1 - value * scale:.1f}" for index, value in enumerate(values)]
    path = "M" + "L".join(points)
    return Line(path, f"{path}L{WIDTH:.0f} {HEIGHT:.0f}L0 {HEIGHT:.0f}Z", peak, values[-1])


def bars(cells: dict[int, tuple[int, int]], minute: int, count: int = 60) -> list[Bar]:
    """Return one bar for each of the last `count` minutes up to `minute`. cells: minute -> (records, aborted)."""
    peak = max((records for records, _ in cells.values()), default=0)
    result = []
    for index in range(count):
        at = minute - count + 1 + index
        records, aborted = cells.get(at, (0, 0))
        height = max(1.5, records / peak * (HEIGHT - 2)) if records and peak else 0.8
        result.append(Bar(index + 0.1, HEIGHT - height, height, records, aborted, minute - at))
    return result


@dataclass(frozen=True, slots=True)
class Strip:
    """Lines in a box of `count` x 12, one unit per minute. runs: (tone, path data); marks: path data of ticks."""

    count: int
    runs: Sequence[tuple[str, str]]
    marks: str
    text: str


def _tone(state: str) -> str:
    return str(task_look(state).tone) if state else ""


def strip(hour: Hour) -> Strip:
    """Draw the strip. Neighbouring cells of one tone become one line; a tick is a fencing round or a restart."""
    paths: dict[str, str] = {}
    at = 0
    for tone, run in groupby(map(_tone, hour.states)):
        length = len(list(run))
        if tone:
            paths[tone] = paths.get(tone, "") + f"M{at} 6h{length}"
        at += length
    ticks = (at for at, marks in enumerate(zip(hour.fences, hour.restarts, strict=True)) if any(marks))
    marks = "".join(f"M{at}.5 0v12" for at in ticks)
    return Strip(len(hour.states), sorted(paths.items()), marks, _text(hour))


_WORDS = {
    Severity.OK: "running",
    Severity.BAD: "failed",
    Severity.MOTION: "starting",
    Severity.REST: "at rest",
    Severity.WARN: "retrying",
    Severity.UNKNOWN: "in an unknown state",
}


def _text(hour: Hour) -> str:
    tones = Counter(map(_tone, hour.states))
    parts = [f"{word} in {tones[tone]}" for tone, word in _WORDS.items() if tones[tone]]
    text = f"Last {write_count(len(hour.states), 'minute')}: " + (", ".join(parts) if parts else "nothing is known")
    for count, word in ((sum(hour.fences), "fencing round"), (sum(hour.restarts), "restart")):
        if count:
            text += f"; {write_count(count, word)}"
    return text


LIVE_MS = 5_000
"""Milliseconds. A task that moves records reports each second: an older rate is unknown."""
IDLE_MS = 25_000
"""Milliseconds. An idle task reports every ten seconds: an older 0 is unknown."""


@dataclass(frozen=True, slots=True)
class Row:
    """One connector in the list. records: all committed records, with a note on skipped and dead-lettered ones.

    reported: the records are known only from its tasks' reports.
    """

    connector: Connector
    look: Badge
    since_ms: int
    reason: str
    rate: float | None
    """None if it is currently unknown."""
    data_as_of_ms: int
    """0 if it is unknown."""
    records: SafeString
    reported: bool
    picture: Line
    hour: Strip


def rows_of(page: Iterable[Connector], now_ms: int) -> list[Row]:
    """Return rows for the connectors, with six more queries."""
    connectors, health = list(page), known_health()
    of: dict[str, list[Task]] = {connector.name: [] for connector in connectors}
    tasks = Task.objects.filter(connector__in=of, known=True)
    for task in tasks.only("connector", "state", "rate", "reported_ms", "recent", "data_as_of_ms"):
        of[task.connector].append(task)
    strips = {name: strip(hour) for name, hour in hours(of, now_ms).items()}
    waiting = find_waiting([one.name for one in connectors if one.health in MAY_WAIT])
    reported_names = find_reported(of)
    return [
        _row(one, of[one.name], strips[one.name], now_ms, health, waiting.get(one.name, ""), one.name in reported_names)
        for one in connectors
    ]


def _row(
    connector: Connector,
    tasks: list[Task],
    hour: Strip,
    now_ms: int,
    health: KnownHealth,
    waits: str,
    reported: bool,
) -> Row:
    rate = rate_of(tasks, now_ms)
    return Row(
        connector=connector,
        look=look_of(connector, health),
        since_ms=health.since_ms(connector),
        reason=reason(connector, health, waits),
        rate=None if health.vitals.stale else rate,
        data_as_of_ms=find_data_age(tasks),
        records=_records(connector, reported),
        reported=reported,
        picture=line([*rates(tasks, now_ms)[1:], rate or 0.0]),
        hour=hour,
    )


def _records(connector: Connector, reported: bool) -> SafeString:
    """Render the cell. Not a template, whose white space would be a large part of a page of fifty rows."""
    bad = bad_records(connector.dead_letters_total, connector.skipped_total)
    link = format_html('<a class="sub warn-text" href="/ui/connectors/{}/dead-letters">{}</a>', connector.path, bad)
    suffix = mark_safe(' <span class="sub">(reported)</span>') if reported else ""
    return format_html("{}{} {}", f"{connector.records_total:,}", suffix, link if bad else "")


def rate_of(tasks: list[Task], now_ms: int) -> float | None:
    """Return the current records per second of the tasks whose rate is known; None if a task runs, and none's is."""
    running = [task for task in tasks if task.state == "RUNNING"]
    known_rates = [task.rate for task in running if task.reported_ms > now_ms - (LIVE_MS if task.rate else IDLE_MS)]
    return sum(known_rates) if known_rates or not running else None
