"""Log lines as rows: the newest KEPT of each connector."""

from collections.abc import Sequence

from ringfence.fencing.topics.events import Event as Report
from ringfence.fencing.topics.log_levels import number_of
from ringfence.projection.models import LogLine
from ringfence.projection.progress_reports import number, text

KEPT = 1000
_SLACK = 100
"""This many more are kept before the oldest are deleted, so that not each line deletes another."""
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
