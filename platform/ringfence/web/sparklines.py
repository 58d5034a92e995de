"""Small charts of numbers over time, as SVG paths made on the server, so that pages need no chart library."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ringfence.projection.models import Task

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
