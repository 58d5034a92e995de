"""Log lines as rows: the newest KEPT of each connector."""

from collections.abc import Sequence

from django.db.models import Max, Min, QuerySet

from ringfence.fencing.topics.events import Event as Report
from ringfence.fencing.topics.log_levels import number_of
from ringfence.projection.models import LogLine
from ringfence.projection.progress_reports import number, text

KEPT = 1000
_SLACK = 100
"""This many more are kept before the oldest are deleted, so that not each line deletes another."""
_LATE_MS = 60_000
"""Lines of different processes may arrive this much out of the order of their times."""
_LEVELS = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")


def severity_of(level: str) -> int:
    """Return Python's number of a level, INFO's for an unknown one."""
    return number_of(level if level in _LEVELS else "INFO")


def write(reports: Sequence[Report]) -> None:
    """Add lines, and delete surplus ones. Inside the transaction."""
    rows = [_row(report) for report in reports if text(report, "connector")]
    if not rows:
        return
    LogLine.objects.bulk_create(rows, batch_size=90)
    for name in sorted({row.connector for row in rows}):
        lines = LogLine.objects.filter(connector=name)
        newest = lines.order_by("-id").values_list("id", flat=True)
        if newest[KEPT + _SLACK : KEPT + _SLACK + 1]:
            lines.filter(id__lte=newest[KEPT]).delete()


def find_range(from_ms: int, to_ms: int) -> QuerySet[LogLine]:
    """Return the lines of all connectors from then to then, without reading all others: ids rise as lines arrive."""
    ids = {"pk__gte": _find_first(from_ms - _LATE_MS), "pk__lt": _find_first(to_ms + _LATE_MS)}
    return LogLine.objects.filter(time_ms__gte=from_ms, time_ms__lt=to_ms, **ids)


def _find_first(time_ms: int) -> int:
    """Return an id before which about all lines are older, by bisection."""
    bounds = LogLine.objects.aggregate(least=Min("pk"), most=Max("pk"))
    low, high = bounds["least"] or 0, (bounds["most"] or 0) + 1
    while low < high:
        middle = (low + high) // 2
        line = LogLine.objects.filter(pk__gte=middle).order_by("pk").values_list("pk", "time_ms").first()
        if line is None or line[1] >= time_ms:
            high = middle
        else:
            low = line[0] + 1
    return low


def prune(before_ms: int) -> None:
    """Delete lines that are too old."""
    LogLine.objects.filter(time_ms__lt=before_ms).delete()


def _row(report: Report) -> LogLine:
    level = text(report, "level")[:8]
    return LogLine(
        connector=text(report, "connector"),
        time_ms=number(report, "time_ms"),
        level=level,
        severity=severity_of(level),
        task=number(report, "task", -1),
        generation=number(report, "generation", -1),
        attempt=number(report, "attempt", -1),
        worker=text(report, "worker"),
        logger=text(report, "logger"),
        message=text(report, "message"),
        request=text(report, "request")[:100],
    )
