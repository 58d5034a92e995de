"""Writes the events topic as rows: the live numbers of tasks, their minutes, rounds, a timeline for users, and the
newest log lines of each connector."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from django.db import transaction
from django.db.models import F, Max, Min, QuerySet

from ringfence import telemetry
from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.clock import epoch_ms
from ringfence.fencing.topics.events import Event as Report
from ringfence.fencing.topics.events import decode
from ringfence.fencing.topics.log_levels import number_of
from ringfence.plain_queries import insert, read, select, update, upsert
from ringfence.projection import progress_reports, record_totals, stalls, task_minutes
from ringfence.projection.models import Connector, Event, GenerationRow, HangingTransaction, LogLine, pack
from ringfence.projection.progress_reports import number, text
from ringfence.projection.records import Record
from ringfence.projection.signals import foreign_record_found, hanging_transaction_ended
from ringfence.projection.task_minutes import Minutes

KEPT_LINES = 1000
_LINES_SLACK = 100
"""This many more are kept before the oldest are deleted, so that not each line deletes another."""
_LATE_MS = 60_000
"""Lines of different processes may arrive this much out of the order of their times."""
_LEVELS = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")


def severity_of(level: str) -> int:
    """Return Python's number of a level, INFO's for an unknown one."""
    return number_of(level if level in _LEVELS else "INFO")


def write_lines(reports: Sequence[Report]) -> None:
    """Add lines, and delete surplus ones. Inside the transaction."""
    rows = [_line(report) for report in reports if text(report, "connector")]
    if not rows:
        return
    insert(rows)
    for name in sorted({row.connector for row in rows}):
        lines = LogLine.objects.filter(connector=name)
        if select(LogLine, "id", "connector = %s ORDER BY id DESC LIMIT 1 OFFSET %s", name, KEPT_LINES + _LINES_SLACK):
            newest = lines.order_by("-id").values_list("id", flat=True)
            lines.filter(id__lte=newest[KEPT_LINES]).delete()


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


def prune_lines(before_ms: int) -> None:
    """Delete lines that are too old."""
    LogLine.objects.filter(time_ms__lt=before_ms).delete()


def _line(report: Report) -> LogLine:
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


_NUMBERS = ("partition", "producer_id", "epoch", "start_offset", "last_ms")
_TEXTS = ("cluster", "topic", "transactional_id", "why_not")


def write_hanging(report: Report) -> None:
    """Write a report. Inside the transaction that has applied the events before it."""
    if text(report, "stage") == "ended":
        _mark_ended(report)
        return
    left = report.get("hanging")
    HangingTransaction.objects.all().delete()
    HangingTransaction.objects.bulk_create(
        HangingTransaction(
            connectors=pack(row.get("connectors") or []),
            **{name: number(row, name) for name in _NUMBERS},
            **{name: text(row, name) for name in _TEXTS},
        )
        for row in (left if isinstance(left, list) else ())
    )


def _mark_ended(report: Report) -> None:
    connector = text(report, "connector")
    Connector.objects.filter(name=connector).update(hanging_ended_total=F("hanging_ended_total") + 1)
    HangingTransaction.objects.filter(
        topic=text(report, "topic"), partition=number(report, "partition"), producer_id=number(report, "producer_id")
    ).delete()
    hanging_transaction_ended.send(
        sender=None, connector=connector, by=text(report, "by"), message=text(report, "message")[:1000]
    )


_SAID_TWICE = re.compile(r"\d+ fenced in [\d.]+ s$")
"""The message of earlier versions for a finished round."""
_DONE: Final[Mapping[str, str]] = {
    "create": "Created",
    "configure": "Configuration changed",
    "delete": "Deleted",
    "pause": "Paused",
    "resume": "Resumed",
    "stop": "Stopped",
    "restart": "Restarted",
    "restart_task": "Task restarted",
    "alter_offsets": "Source offsets changed",
    "reset_offsets": "Source offsets reset",
    "fence_now": "Fenced",
    "fence_id": "Transaction ended",
}
"""What a command has done, in words."""
KEPT_MS = 7 * 24 * 3600 * 1000


def write(records: Sequence[Record]) -> set[str]:
    """Write reports. Return the connectors that they concern. Inside the transaction."""
    reports = [report for report in (decode(record.value) for record in records) if report is not None]
    history = Minutes()
    progress = [report for report in reports if report["type"] == "progress"]
    moved = progress_reports.write(progress, history)
    if telemetry.is_on():
        # Once: records that another projector has written first are not written here.
        transaction.on_commit(partial(progress_reports.trace_transactions, progress), robust=True)
    others = [report for report in reports if report["type"] != "progress"]
    for report in others:
        if report["type"] == "round":
            _write_round(report, history)
        if report["type"] == "command" and report.get("kind") == "fence_now":
            _mark_forced(report)
        if report["type"] == "hanging":
            write_hanging(report)
        if report["type"] == "foreign":
            _tell_foreign(report)
    history.write()
    if history.bad:
        record_totals.update_counts(epoch_ms(), history.bad)
    stalls.clear_stalled(moved)
    write_lines([report for report in others if report["type"] == "log"])
    insert(_event_row(report) for report in others if _in_timeline(report))
    return {text(report, "connector") for report in reports} - {""}


def _tell_foreign(report: Report) -> None:
    foreign_record_found.send(
        sender=None,
        connector=text(report, "connector"),
        message=text(report, "message")[:1000],
        offset=number(report, "offset", -1),
        key=text(report, "key"),
        time_ms=number(report, "time_ms"),
    )


def _in_timeline(report: Report) -> bool:
    """Return whether the timeline shows it: log lines and hanging transactions have their own lists."""
    return report["type"] != "log" and (report["type"], report.get("stage")) != ("hanging", "found")


_ROUND_FIELDS: Final = ("stage", "message", "started_ms", "request", "tasks", "took_ms", "fenced", "ended_ms")


def _write_round(report: Report, history: Minutes) -> None:
    stage, time_ms = text(report, "stage"), number(report, "time_ms")
    key = text(report, "connector"), number(report, "generation", -1)
    stored = read(GenerationRow, "connector = %s AND generation = %s", *key)
    row = stored[0] if stored else GenerationRow(connector=key[0], generation=key[1])
    row.stage, row.message = stage, text(report, "message")
    row.started_ms = row.started_ms or time_ms
    row.request = row.request or text(report, "request")[:100]
    row.tasks = row.tasks or number(report, "tasks")
    row.took_ms = number(report, "ms") or row.took_ms
    fenced = report.get("fenced")
    if isinstance(fenced, list) and fenced:
        row.fenced = pack(fenced)
    if stage in ("done", "failed", "cancelled"):
        row.ended_ms = time_ms
    if stage == "done":
        ids = len(fenced) if isinstance(fenced, list) else 0
        more = "rounds_total = rounds_total + 1, fenced_total = fenced_total + %s"
        update(Connector, more, "name = %s", ids, row.connector)
        statuses = select(Connector, "state, since_ms", "name = %s", row.connector) or [("", 0)]
        history.record_fence(row.connector, time_ms, *statuses[0])
    upsert([row], _ROUND_FIELDS, ("connector", "generation"))


def _mark_forced(report: Report) -> None:
    """Mark the generation of a requested fence: its number is the offset of the last record that the command wrote."""
    if text(report, "outcome") == "done":
        GenerationRow.objects.update_or_create(
            connector=text(report, "connector"),
            generation=number(report, "offset", -1),
            defaults={"forced": True, "forced_by": text(report, "user"), "forced_why": text(report, "message")},
        )


def _event_row(report: Report) -> Event:
    task = report.get("task")
    return Event(
        connector=text(report, "connector"),
        task=task if isinstance(task, int) else None,
        type=text(report, "type")[:32],
        time_ms=number(report, "time_ms"),
        summary=summary(report),
        body=pack(report),
    )


def summary(report: Report) -> str:
    """Return one line of text for the timeline."""
    message = text(report, "message")
    match text(report, "type"):
        case "round":
            fenced = report.get("fenced")
            count = len(fenced) if isinstance(fenced, list) else 0
            done = text(report, "stage") == "done"
            if done:
                older = f"{write_count(count, 'older transactional id')} fenced" if count else "nothing older to fence"
                line = f"{_generation_of(report)} started: {older}"
            else:
                line = f"{_generation_of(report)}: {text(report, 'stage')}"
            if done and _SAID_TWICE.match(message):
                message = ""
        case "task":
            line = f"Task {number(report, 'task')}: {text(report, 'stage')} (attempt {number(report, 'attempt')})"
        case "leader" | "worker":
            line = f"{text(report, 'worker')} {text(report, 'stage')}"
        case "command":
            user = f" by {text(report, 'user')}" if text(report, "user") else ""
            kind, outcome = text(report, "kind"), text(report, "outcome")
            deed = _DONE.get(kind, "") if outcome == "done" else ""
            line = f"{deed}{user}" if deed else f"{kind.replace('_', ' ').capitalize()}{user}: {outcome}"
        case "hanging":
            ended = text(report, "stage") == "ended"
            line = f"Hanging transaction ended by the {text(report, 'by')}" if ended else "Hanging transactions found"
        case other:
            line = other
    return f"{line}. {message}" if message else line


def _generation_of(report: Report) -> str:
    """Return the generation's number for users, if it is known already."""
    offset = number(report, "generation", -1)
    here = "connector = %s AND generation = %s AND number > 0"
    rows = select(GenerationRow, "number", here, text(report, "connector"), offset)
    return f"Generation {rows[0][0]}" if rows else f"Generation at offset {offset}"


def prune(now_ms: int) -> None:
    """Delete events that are too old to be shown."""
    Event.objects.filter(time_ms__lt=now_ms - KEPT_MS).delete()
    prune_lines(now_ms - KEPT_MS)
    task_minutes.prune(now_ms)


def forget() -> None:
    """Do nothing: with a new events topic, the old rows stay, since they are history and not state."""
