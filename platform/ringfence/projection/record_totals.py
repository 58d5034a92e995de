"""Counts the records that each task has committed, skipped and sent to its dead letter queue, for all pages and APIs.

The counts come from two topics that are read in parallel: the headers of source offsets
(`fencing.offsets.record_counts`), which exist if and only if the records do, and progress reports, the only source for
tasks without such offsets and for aborted records. Both are cumulative within an attempt, so the larger count is right.
Each attempt is remembered for a while, so that a late report adds nothing twice.

A killed task reports no abort: the next attempt's producer, or the leader, ends its transaction. So records that a
replaced attempt had sent by its last report, and that are not committed in Kafka, count as aborted. Those sent after
that report are missing, so the number of aborted records is a lower bound.

For a connector's health, the records of the last hour that it skipped or sent to its dead letter queue are counted.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, Sum

from ringfence.fencing.modes import Mode
from ringfence.fencing.offsets.record_counts import MOST
from ringfence.fencing.topics.events import Event as Report
from ringfence.plain_queries import among, read, select, update_each, upsert
from ringfence.projection.health import refresh
from ringfence.projection.models import Connector, Minute, RecordTotals, SourceOffset, Task, Tombstone, Worker, pack
from ringfence.projection.task_minutes import SHOWN, Minutes, minute_of, state_of

COUNTS = ("records", "skipped", "dead_letters", "aborted_records")
_REMEMBERED = 8
_SENT, _LOST, _IN_OFFSETS = "sent", "lost", "in_offsets"
"""Fields of a remembered attempt: records sent; those that count as aborted without a report; 1 if source offsets
have counted it."""
_FIELDS = (*COUNTS, "last_commit_ms", "attempts")
_SUMS = {
    "records_total": "records",
    "skipped_total": "skipped",
    "dead_letters_total": "dead_letters",
    "aborted_records_total": "aborted_records",
}


@dataclass(frozen=True, slots=True)
class ReportedCounts:
    """The counts that an attempt has reported so far, and when.

    commit_ms: its newest commit; 0 for none. sent_records: in transactions, committed or not. in_offsets: they come
    from a source offset, which exists if and only if the records do.
    """

    connector: str
    task: int
    generation: int
    attempt: int
    counts: Mapping[str, int]
    time_ms: int
    commit_ms: int
    sent_records: int = 0
    in_offsets: bool = False


def read_report(report: Report) -> ReportedCounts | None:
    """Parse a progress report; None if it is invalid. Earlier versions reported sent records, not committed ones."""
    task, generation, attempt = (_count(report.get(name)) for name in ("task", "generation", "attempt"))
    name, committed = report.get("connector"), report.get("committed", [report.get("records")])
    if not (isinstance(name, str) and name and isinstance(committed, list)):
        return None
    if task is None or generation is None or attempt is None:
        return None
    pairs = zip(COUNTS, [*committed[:3], *([None] * (3 - len(committed))), report.get("aborted_records")], strict=True)
    counts = {each: count for each, value in pairs if (count := _count(value)) is not None}
    time_ms, commit_ms = (_count(report.get(each)) or 0 for each in ("time_ms", "last_commit_ms"))
    transactional = _count(report.get("producer_id")) is not None
    sent_records = (_count(report.get("records")) or 0) if transactional else 0
    return ReportedCounts(name, task, generation, attempt, counts, time_ms, commit_ms, sent_records)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def add(all_told: Iterable[ReportedCounts], history: Minutes) -> set[str]:
    """Add new counts to the rows, and to the minutes. Return the connectors whose totals changed.

    Late reports of a deleted connector's generations are left out: another one may have its name now. Inside the
    transaction of the batch that contained them.
    """
    # The last count of a minute includes the earlier ones.
    newest = {
        (each.connector, each.task, each.generation, each.attempt, minute_of(each.time_ms)): each for each in all_told
    }
    if not newest:
        return set()
    names = {report.connector for report in newest.values()}
    deletions = find_deletions(names)
    numbers = {report.task for report in newest.values()}
    of_names = among("connector", names)
    totals = read(RecordTotals, f"{of_names} AND {among('task', numbers)}", *names, *numbers)
    rows = {(row.connector, row.task): row for row in totals}
    columns = "connector, number, state, since_ms, retry"
    values = select(Task, columns, f"{of_names} AND {among('number', numbers)}", *names, *numbers)
    states = {(name, number): state_of(state, since_ms, retry) for name, number, state, since_ms, retry in values}
    changed: set[tuple[str, int]] = set()
    for report in newest.values():
        if report.generation < deletions.get(report.connector, -1):
            continue
        key = (report.connector, report.task)
        row = rows.setdefault(key, RecordTotals(connector=key[0], task=key[1]))
        gained = _gain(row, report)
        if gained is not None:
            changed.add(key)
            history.record_commits(key, report.time_ms, gained, *states.get(key, ("", 0)))
    upsert([rows[key] for key in changed], _FIELDS, ("connector", "task"))
    touched = {name for name, _ in changed}
    _sum_up(touched)
    return touched


def _gain(row: RecordTotals, report: ReportedCounts) -> dict[str, int] | None:
    """Add to the row what exceeds the known counts; None if nothing does."""
    attempts: dict[str, dict[str, int]] = json.loads(row.attempts)
    key = f"{report.generation}.{report.attempt}"
    if key not in attempts and len(attempts) >= _REMEMBERED and _order(key) < min(map(_order, attempts)):
        return None  # an old attempt: its counts are included already
    counts_before = attempts.get(key, {})
    gained = {name: max(0, count - counts_before.get(name, 0)) for name, count in report.counts.items()}
    later = report.commit_ms > row.last_commit_ms or report.sent_records > counts_before.get(_SENT, 0)
    first = report.in_offsets and _IN_OFFSETS not in counts_before
    if not (any(gained.values()) or later or first):
        return None
    for name, count in gained.items():
        setattr(row, name, getattr(row, name) + count)
    row.last_commit_ms = max(row.last_commit_ms, report.commit_ms)
    attempts[key] = {
        **counts_before,
        **{name: max(count, counts_before.get(name, 0)) for name, count in report.counts.items()},
    }
    if report.sent_records > counts_before.get(_SENT, 0):
        attempts[key][_SENT] = report.sent_records
    if report.in_offsets:
        attempts[key][_IN_OFFSETS] = 1
    row.aborted_records += _count_lost(attempts)
    newest = sorted(attempts, key=_order)[-_REMEMBERED:]
    row.attempts = pack({each: attempts[each] for each in newest})
    return gained


def _count_lost(attempts: dict[str, dict[str, int]]) -> int:
    """Update the records lost by killed attempts. Return the difference, negative if a commit was read late.

    An attempt has ended when a later one has committed, since it was fenced before that.
    """
    last = max((_order(key) for key, each in attempts.items() if _IN_OFFSETS in each), default=(-1, -1))
    difference = 0
    for key, each in attempts.items():
        if _order(key) >= last or _SENT not in each:
            continue
        counts_before = sum(each.get(name, 0) for name in ("records", "dead_letters", "aborted_records"))
        lost = max(0, each[_SENT] - counts_before)
        difference += lost - each.get(_LOST, 0)
        each[_LOST] = lost
    return difference


def _order(key: str) -> tuple[int, int]:
    generation, _, attempt = key.partition(".")
    return int(generation), int(attempt)


def _sum_up(names: Collection[str]) -> None:
    """Write the sums of these connectors to their rows."""
    if not names:
        return
    sums = ", ".join(f"CAST(SUM({field}) AS BIGINT)" for field in _SUMS.values())
    condition = f"{among('connector', names)} GROUP BY connector"
    rows = select(RecordTotals, f"{sums}, MAX(last_commit_ms), connector", condition, *names)
    changes = ", ".join(f"{name} = %s" for name in (*_SUMS, "last_commit_ms"))
    update_each(Connector, changes, "name = %s", rows)


def find_deletions(names: Collection[str]) -> dict[str, int]:
    """Return the config offsets of these connectors' newest deletions."""
    return dict(select(Tombstone, "connector, config_offset", among("connector", names), *names)) if names else {}


def forget(names: Collection[str]) -> None:
    """Delete the totals of connectors that were deleted. Inside the transaction."""
    RecordTotals.objects.filter(connector__in=names).delete()
    Connector.objects.filter(name__in=names).update(**dict.fromkeys(_SUMS, 0), last_commit_ms=0)


def find_reported(connectors: Collection[str]) -> set[str]:
    """Return the connectors whose committed records are only counted in their tasks' reports, not in source offsets.

    Records that such a task committed between its last report and a kill are missing. Two queries.
    """
    connectors_with_records = Connector.objects.filter(name__in=connectors, records_total__gt=0)
    if Worker.objects.exclude(mode=Mode.ENABLED).exists():
        return set(connectors_with_records.values_list("name", flat=True))
    offsets = SourceOffset.objects.filter(connector=OuterRef("name"))
    totals = RecordTotals.objects.filter(connector=OuterRef("name"), attempts__contains=f'"{_IN_OFFSETS}"')
    return set(connectors_with_records.filter(~Exists(offsets), ~Exists(totals)).values_list("name", flat=True))


def of_tasks(connectors: Collection[str]) -> dict[tuple[str, int], RecordTotals]:
    """Return the totals by connector and task, without tasks that have not reported yet."""
    rows = RecordTotals.objects.filter(connector__in=connectors).defer("attempts")
    return {(row.connector, row.task): row for row in rows}


RECENT = Q(recent_skipped__gt=0) | Q(recent_dead_letters__gt=0)
"""Connectors that had some in the last hour."""


def update_counts(now_ms: int, names: Collection[str] = ()) -> set[str]:
    """Update the counts of these connectors, and of those with some in the last hour. Return those that changed."""
    rows = list(Connector.objects.filter(RECENT | Q(name__in=names)))
    if not rows:
        return set()
    first = minute_of(now_ms) - SHOWN + 1
    sums = Minute.objects.filter(connector__in=[row.name for row in rows], minute__gte=first).values("connector")
    totals = sums.order_by().annotate(skips=Sum("skipped"), letters=Sum("dead_letters"))
    counts = {row["connector"]: (row["skips"], row["letters"]) for row in totals}
    changed = set()
    with transaction.atomic():
        for row in rows:
            before = row.recent_skipped, row.recent_dead_letters
            now = counts.get(row.name, (0, 0))
            if now == before:
                continue
            since_ms = 0 if not any(now) else row.bad_since_ms or now_ms
            skips, letters = now
            Connector.objects.filter(name=row.name).update(
                recent_skipped=skips, recent_dead_letters=letters, bad_since_ms=since_ms
            )
            changed.add(row.name)
        if changed:
            refresh(changed)
    return changed
