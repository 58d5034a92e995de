"""Converts tasks' progress reports, cumulative since an attempt's start, to live numbers and differences."""

import json
from collections.abc import Mapping, Sequence

from ringfence import telemetry
from ringfence.fencing.request_context import RequestContext, read_id, read_trace
from ringfence.fencing.task.traced_transactions import ABORTED, COMMITTED, MOST, MOST_CONTEXTS
from ringfence.fencing.topics.events import Event as Report
from ringfence.projection import record_totals, task_metrics
from ringfence.projection.health import refresh
from ringfence.projection.models import Task, pack
from ringfence.projection.records import clean
from ringfence.projection.stalls import forget_failure, has_recovered
from ringfence.projection.task_minutes import Minutes

RECENT = 120
"""How many reports are kept per task for the charts of records per second and of transactions."""

_MOST_NUMBER = 1 << 43
"""Milliseconds fit in it for two centuries more."""
_LIVE_FIELDS = (
    "live_generation", "live_attempt", "reported_ms", "records", "rate", "bytes", "transactions",
    "aborted", "errors", "open_records", "open_since_ms", "last_poll_ms", "last_commit_ms", "last_answer_ms",
    "data_as_of_ms", "commit_ms", "producer_id", "epoch", "recent", "measures", "totals", "failed_ms", "failed_trace",
    "failed_record",
)  # fmt: skip
_COUNTERS = ("records", "transactions", "aborted", "errors")
_LIVE_NUMBERS = ("bytes", "open_records", "open_since_ms", "last_poll_ms", "last_commit_ms", "last_answer_ms")


def number(report: Report, name: str, default: int = 0) -> int:
    """Return an integer of a report; `default` if it is anything else."""
    value = report.get(name)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def text(report: Report, name: str) -> str:
    """Return a string of a report; "" if it is anything else."""
    value = report.get(name)
    return clean(value) if isinstance(value, str) else ""


def write(reports: Sequence[Report], history: Minutes) -> set[str]:
    """Update the tasks' live numbers and `history`. Inside the transaction.

    Return the connectors that moved records.
    """
    reports = [report for report in reports if text(report, "connector") and number(report, "task", -1) >= 0]
    if not reports:
        return set()
    names = {text(report, "connector") for report in reports}
    numbers = {number(report, "task") for report in reports}
    rows = Task.objects.filter(connector__in=names, number__in=numbers)
    tasks = {(task.connector, task.number): task for task in rows}
    changed: dict[tuple[str, int], Task] = {}
    moved: set[str] = set()
    recovered: set[str] = set()
    counted_reports: list[Report] = []
    for report in reports:
        key = (text(report, "connector"), number(report, "task"))
        task = tasks.setdefault(key, Task(connector=key[0], number=key[1]))
        gained = advance(task, report)
        if gained is not None or "committed" in report:
            # What a replaced attempt has committed counts, too, but not what it has only sent.
            counted_reports.append(report)
        if gained is None:
            continue
        changed[key] = task
        if task.failed_ms and has_recovered(task):
            forget_failure(task)
            recovered.add(task.connector)
        if gained["records"]:
            moved.add(task.connector)
        history.record_report(task, task.reported_ms, gained)
    record_totals.add(
        [counts for counts in map(record_totals.read_report, counted_reports) if counts is not None], history
    )
    Task.objects.bulk_create(
        changed.values(),
        update_conflicts=True,
        update_fields=_LIVE_FIELDS,
        unique_fields=["connector", "number"],
        batch_size=50,
    )
    if recovered:
        refresh(recovered)
    return moved


def advance(task: Task, report: Report) -> dict[str, int] | None:
    """Set the task's live numbers from a report. Return the increase of each counter since the last one.

    Return None for a report of a replaced attempt: a zombie may report for a while.
    """
    attempt = (number(report, "generation", -1), number(report, "attempt", -1))
    newest = max((task.live_generation, task.live_attempt), (task.generation, -1))
    if attempt < newest:
        return None
    same = attempt == (task.live_generation, task.live_attempt)
    gained = {name: number(report, name) - (getattr(task, name) if same else 0) for name in _COUNTERS}
    gained = {name: max(0, count) for name, count in gained.items()}
    time_ms = number(report, "time_ms")
    ended = _ended_transactions(task, report, gained, same=same)
    between = [] if same else _time_between_attempts(task, report)
    seconds = (time_ms - task.reported_ms) / 1000 if same and task.reported_ms else 0
    task.rate = gained["records"] / seconds if seconds > 0.05 else (task.rate if same else 0)
    task_metrics.advance(task, report, gained, seconds, same=same)
    task.live_generation, task.live_attempt = attempt
    task.reported_ms = time_ms
    task.commit_ms = float(number(report, "commit_ms"))
    for name in (*_COUNTERS, *_LIVE_NUMBERS):
        setattr(task, name, number(report, name))
    # After a start, older data is as of then until the source has said that it has nothing newer.
    task.data_as_of_ms = number(report, "data_as_of_ms") or task.data_as_of_ms
    task.producer_id, task.epoch = number(report, "producer_id", -1), number(report, "epoch", -1)
    entries = [*json.loads(task.recent), *between, [time_ms // 1000, gained["records"], *ended]]
    task.recent = pack(entries[-RECENT:])
    return gained


def _ended_transactions(task: Task, report: Report, gained: Mapping[str, int], *, same: bool) -> list[int]:
    """Return the transactions since the previous report as [from, to, committed, aborted, records], [] for none.

    There is at most one report a second, so it may combine short transactions. From: the start of the transaction that
    was open in the previous report, else the time of that report, else the attempt's start. To: the last commit; after
    an abort, the time of this report. Call it before the task's live numbers are set.
    """
    committed, aborted = gained["transactions"], gained["aborted"]
    if not committed and not aborted:
        return []
    time_ms, last_commit_ms = number(report, "time_ms"), number(report, "last_commit_ms")
    began = (task.open_since_ms or task.reported_ms) if same else time_ms - number(report, "life_ms")
    ended = last_commit_ms if not aborted and began < last_commit_ms < time_ms else time_ms
    records = (task.open_records if same else 0) + gained["records"] - number(report, "open_records")
    return [min(began, ended), ended, committed, aborted, max(0, records)]


def _time_between_attempts(task: Task, report: Report) -> list[list[int]]:
    """Return the time from the previous attempt's last report to this one's start, as an entry without transactions.

    Call it before the task's live numbers are set, at the first report of an attempt.
    """
    start_ms = number(report, "time_ms") - number(report, "life_ms")
    if not task.reported_ms or start_ms <= task.reported_ms:
        return []
    return [[start_ms // 1000, 0, task.reported_ms, start_ms, 0, 0, 0]]


def trace_transactions(reports: Sequence[Report]) -> None:
    """Trace the transactions of which tasks report samples (`fencing.task.traced_transactions`)."""
    for report in reports:
        samples = report.get("traced")
        for sample in samples[:MOST] if isinstance(samples, list) else ():
            if isinstance(sample, dict):
                _trace_transaction(report, sample)


def _trace_transaction(report: Report, sample: Report) -> None:
    began_ms, commit_ms, ended_ms = (_small_number(sample, name) for name in ("began_ms", "commit_ms", "ended_ms"))
    outcome, links = text(sample, "outcome")[:20], sample.get("links")
    contexts = [read_trace(each) for each in (links if isinstance(links, list) else ())[: MOST_CONTEXTS + 1]]
    attributes: telemetry.Attributes = {
        "messaging.system": "kafka",
        "messaging.batch.message_count": _small_number(sample, "records"),
        **{f"ringfence.{name}": text(report, name)[:300] for name in ("connector", "worker", "transactional_id")},
        **{f"ringfence.{name}": _small_number(report, name) for name in ("task", "generation", "attempt")},
        **{f"ringfence.{name}": _small_number(sample, name) for name in ("producer_id", "epoch")},
        "ringfence.outcome": outcome,
    }
    telemetry.tell(
        "transaction",
        RequestContext(read_id(report.get("request")), read_trace(sample.get("parent"))),
        began_ms,
        ended_ms,
        attributes,
        kind="producer",
        links=[each for each in contexts if each],
        marks={"commit": commit_ms} if commit_ms > 0 else telemetry.NO_MARKS,
        failed=outcome not in (COMMITTED, ABORTED),
    )


def _small_number(report: Report, name: str) -> int:
    """Return a number that a span can have: one that it cannot would take those beside it along."""
    value = number(report, name)
    return value if -1 <= value < _MOST_NUMBER else 0
