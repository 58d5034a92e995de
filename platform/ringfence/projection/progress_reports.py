"""Converts tasks' progress reports, cumulative since an attempt's start, to live numbers and differences; and to the
JSON beside the columns, in `Task.measures`.

Only metrics show these (`fencing.metrics`): `measures`: the newest report's values, and `poll_rate` (polled records per
second); `held`: records of a share group that the task has, as of `held_ms`; `transactions_v2`: whether its
transactions have epochs of their own (KIP-890), null if no producer was reported. `totals`: counts over all attempts
since the task was first seen.

The metrics of plugins (`connectors.api.metrics`) are under `gauges`, with the report's time (`gauges_ms`); pages show
them, too. The newest known ones stay until a new attempt reports some: an alert about them does not end because the
task was restarted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ringfence import telemetry
from ringfence.fencing.request_context import RequestContext, read_id, read_trace
from ringfence.fencing.share.offset_ranges import MOST as MOST_RANGES
from ringfence.fencing.task.plugin_metrics import LONGEST_TEXT, MOST, MOST_LABELS, NAME, TAKEN_LABELS
from ringfence.fencing.task.traced_transactions import ABORTED, COMMITTED, MOST_CONTEXTS
from ringfence.fencing.task.traced_transactions import MOST as MOST_SAMPLES
from ringfence.fencing.topics.events import Event as Report
from ringfence.plain_queries import among, read, upsert
from ringfence.projection import record_totals
from ringfence.projection.health import refresh
from ringfence.projection.models import Task, pack
from ringfence.projection.records import clean
from ringfence.projection.stalls import forget_failure, has_recovered
from ringfence.projection.task_minutes import Minutes

FRESH_MS: Final = 90_000
"""A running task reports its gauges twice in this time."""

_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class SourceMetric:
    """A gauge of a task. over_since_ms: since when it is above its limit, 0 if it is not."""

    task: int
    name: str
    unit: str
    description: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    limit: float | None = None
    remedy: str = ""
    over_since_ms: int = 0

    @property
    def full_name(self) -> str:
        """The name with its unit at the end, as in Prometheus."""
        return self.name if not self.unit or self.name.endswith(f"_{self.unit}") else f"{self.name}_{self.unit}"

    @property
    def over(self) -> bool:
        return self.limit is not None and self.value > self.limit

    @property
    def display(self) -> str:
        return format_value(self.value, self.unit)

    @property
    def shown_limit(self) -> str:
        return "" if self.limit is None else format_value(self.limit, self.unit)


def format_value(value: float, unit: str) -> str:
    """Format a value for users: `3.2 GiB`, `1.4 s`, `2 h 5 min`, `1,234 rows`."""
    if unit == "bytes":
        size, power = float(value), 0
        while abs(size) >= 1024 and power < len(_BYTES) - 1:
            size, power = size / 1024, power + 1
        return f"{size:,.1f} {_BYTES[power]}" if power else f"{size:,.0f} B"
    if unit == "seconds":
        if value < 60:
            return f"{value:.1f} s"
        minutes = int(value // 60)
        return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    return f"{number} {unit}".rstrip()


def keep(before: Mapping[str, Any], reported: object, time_ms: int) -> dict[str, Any]:
    """Return the gauges in `Task.measures` after a report. before: of any attempt; reported: its `gauges`."""
    if not isinstance(reported, list):
        return {name: before[name] for name in ("gauges", "gauges_ms") if name in before}
    over = {_key(each): each.get("over_since_ms", 0) for each in before.get("gauges", [])}
    gauges = []
    for each in reported[:MOST]:
        gauge = _read(each)
        if gauge is not None:
            above = gauge.get("limit") is not None and gauge["value"] > gauge["limit"]
            gauges.append({**gauge, **({"over_since_ms": over.get(_key(gauge)) or time_ms} if above else {})})
    return {"gauges": gauges, "gauges_ms": time_ms}


def metrics_of(tasks: Sequence[Task], now_ms: int, *, fresh: bool = True) -> Iterator[SourceMetric]:
    """Return the metrics of these tasks. fresh: only current ones."""
    for task in tasks:
        measures = json.loads(task.measures)
        if fresh and now_ms - measures.get("gauges_ms", 0) >= FRESH_MS:
            continue
        for each in measures.get("gauges", []):
            yield SourceMetric(task.number, **each)


def _key(gauge: Mapping[str, Any]) -> tuple[str, str]:
    return gauge["name"], json.dumps(gauge.get("labels", {}), sort_keys=True)


def _read(entry: object) -> dict[str, Any] | None:
    """Parse a gauge of a report; None if it is invalid: any client may have written it."""
    if not isinstance(entry, dict):
        return None
    name, unit, value = entry.get("name"), entry.get("unit", ""), _number(entry.get("value"))
    if not isinstance(name, str) or not NAME.fullmatch(name) or value is None:
        return None
    if not isinstance(unit, str) or (unit and not NAME.fullmatch(unit)):
        return None
    labels = entry.get("labels", {})
    if not isinstance(labels, dict) or len(labels) > MOST_LABELS:
        return None
    if any(not NAME.fullmatch(key) or key in TAKEN_LABELS for key in labels):
        return None
    return {
        "name": name,
        "unit": unit,
        "value": value,
        "description": clean(str(entry.get("description", "")))[:LONGEST_TEXT],
        "labels": {key: clean(str(text))[:LONGEST_TEXT] for key, text in labels.items()},
        "limit": _number(entry.get("limit")),
        "remedy": clean(str(entry.get("remedy", "")))[: 2 * LONGEST_TEXT],
    }


def _number(value: object) -> float | None:
    """Return the number; None for anything else, and for NaN and infinity, which Python's JSON accepts."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e300:
        return None
    return float(value)


SPREADS = ("poll_ms", "batch_records", "active_records", "commit_times_ms", "commit_failed", "transaction_records")
"""{min, max, sum, count} of the last 30 to 60 seconds before the report."""

_CUMULATIVE = (
    "polled", "retries", "record_errors", "record_failures", "errors_logged", "commit_failures", "producers_renewed",
)  # fmt: skip
_LATEST = ("last_error_ms", "running_ms", "paused_ms", "life_ms")


def _whole(value: object) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _spread(value: object) -> dict[str, float]:
    spread: Mapping[str, object] = value if isinstance(value, dict) else {}
    return {name: _whole(spread.get(name)) for name in ("min", "max", "sum", "count")}


def _read_held(value: object) -> list[list[object]]:
    """Parse the ranges of a share group's records that the task has: topic, partition, first and last offset."""
    return [each for each in value[:MOST_RANGES] if _is_range(each)] if isinstance(value, list) else []


def _is_range(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 4 or not isinstance(value[0], str):
        return False
    return all(type(one) is int and 0 <= one < 2**63 for one in value[1:]) and value[2] <= value[3]


def uses_transactions_v2(task: Task) -> bool | None:
    """Return whether each of its transactions has an epoch of its own (KIP-890), None if that is not known."""
    version: bool | None = json.loads(task.measures).get("transactions_v2")
    return version


def advance_measures(task: Task, report: Report, gained: Mapping[str, int], seconds: float, *, same: bool) -> None:
    """Set both from a report. gained: the increase of other counters; same: the last report was of the same attempt."""
    measures: dict[str, Any] = json.loads(task.measures)
    before = measures if same else {}
    totals: dict[str, int] = json.loads(task.totals)
    now: dict[str, Any] = {name: int(_whole(report.get(name))) for name in (*_CUMULATIVE, *_LATEST)}
    more = {name: max(0, now[name] - int(before.get(name, 0))) for name in _CUMULATIVE}
    for name, count in {**more, "transactions": gained["transactions"], "aborted": gained["aborted"]}.items():
        totals[name] = totals.get(name, 0) + count
    now["poll_rate"] = more["polled"] / seconds if seconds > 0.05 else before.get("poll_rate", 0)
    now |= {name: _spread(report.get(name)) for name in SPREADS}
    now |= keep(measures, report.get("gauges"), int(_whole(report.get("time_ms"))))
    now |= {"held": _read_held(report.get("held")), "held_ms": int(_whole(report.get("time_ms")))}
    now["transactional_id"] = str(report.get("transactional_id") or "")
    now["transactions_v2"] = version if isinstance(version := report.get("transactions_v2"), bool) else None
    task.measures, task.totals = pack(now), pack(totals)


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
    condition = f"{among('connector', names)} AND {among('number', numbers)}"
    rows = read(Task, condition, *names, *numbers)
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
    upsert(list(changed.values()), _LIVE_FIELDS, ("connector", "number"))
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
    advance_measures(task, report, gained, seconds, same=same)
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
        for sample in samples[:MOST_SAMPLES] if isinstance(samples, list) else ():
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
