"""The overview: the state of everything that the user may see, problems first. A constant number of queries.

Its head says the state of all connectors in one sentence and one bar. An empty installation shows suggestions instead.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import Count, Min, Q, Sum

from ringfence.access.principal import EVERYBODY_HERE, Principal, Verb
from ringfence.alerts.root_causes import Cause, cause_of
from ringfence.api.v1.history import Scope
from ringfence.clock_differences import clocks, describe_largest
from ringfence.error_class import drop_numbers
from ringfence.fencing.modes import lagging
from ringfence.http.masking import Masker
from ringfence.http.section_links import Reference
from ringfence.projection.event_rows import find_range
from ringfence.projection.health import Health, KnownHealth, bad_records, known_health, leader_of, reason
from ringfence.projection.models import ClusterInfo, Connector, Event, HangingTransaction, Task, Worker
from ringfence.projection.slots import MAY_WAIT, find_waiting
from ringfence.web.connector.event_folding import fold, headline
from ringfence.web.connector.header import EventView, event_view
from ringfence.web.consumer_access import consumption
from ringfence.web.lists.connector_rows import LIVE_MS
from ringfence.web.new.field import SETTING
from ringfence.web.state_badges import GROUPS, HEALTH, Badge, Severity, look_of
from ringfence.web.time_axis import Span, draw_axis, is_asked, read_span

_MOST_NAMES = 2
_MOTIONS = {
    Health.STARTING: "starting",
    Health.RESTARTING: "restarting",
    Health.FENCING: "being fenced",
    Health.PAUSING: "pausing",
    Health.STOPPING: "stopping",
}
_OPEN_MS = 10_000
"""A transaction that is open for a shorter time is about to be committed. Each commit would move the numbers."""
_BAR = ("attention", "motion", "resting", "healthy")


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the bar. x, width: in hundredths of its length."""

    word: str
    count: int
    tone: str
    address: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Verdict:
    sentence: str
    tone: str
    shares: Sequence[Share]


def judge(
    counts: Mapping[str, int], worst: Sequence[str], *, stale: bool = False, placeless: Sequence[str] = ()
) -> Verdict:
    """counts: connectors by health; worst: names of those that need attention, the worst first.

    placeless: names of those in motion without a slot, which wait until one becomes free.
    """
    shares = _shares(counts)
    total = sum(counts.values())
    sick = next((share.count for share in shares if share.tone == Severity.BAD), 0)
    moving = next((share.count for share in shares if share.tone == Severity.MOTION), 0)
    if stale:
        return Verdict("The connectors' states are unknown: no worker reports.", Severity.UNKNOWN, shares)
    if not total:
        return Verdict("There are no connectors yet.", Severity.REST, shares)
    if sick:
        verb = "needs" if sick == 1 else "need"
        return Verdict(f"{_of(sick, total)} {verb} attention: {_names(worst, sick)}.", Severity.BAD, shares)
    if placeless:
        verb = "waits" if len(placeless) == 1 else "wait"
        sentence = f"{_of(len(placeless), total)} {verb} for a slot: {_names(placeless, len(placeless))}."
        return Verdict(sentence, Severity.WARN, shares)
    if moving:
        verb = "is" if moving == 1 else "are"
        return Verdict(f"{_of(moving, total)} {verb} {_motions(counts)}.", Severity.MOTION, shares)
    sentence = "All is well: the connector is" if total == 1 else f"All is well: all {total:,} connectors are"
    return Verdict(f"{sentence} in the requested state.", Severity.OK, shares)


def _of(part: int, total: int) -> str:
    return "The only connector" if total == 1 else f"{part:,} of {total:,} connectors"


def _motions(counts: Mapping[str, int]) -> str:
    kinds = [(counts[health], word) for health, word in _MOTIONS.items() if counts.get(health)]
    return kinds[0][1] if len(kinds) == 1 else ", ".join(f"{word} ({count:,})" for count, word in kinds)


def _names(worst: Sequence[str], sick: int) -> str:
    names = worst[: min(_MOST_NAMES, sick)]
    more = sick - len(names)
    if more > 0:
        return ", ".join(names) + f" and {more:,} more"
    return " and ".join(names)


def _shares(counts: Mapping[str, int]) -> list[Share]:
    """Return the non-empty shares, in the order of GROUPS. Unknown states need attention."""
    total = sum(counts.values())
    known_healths = {str(health) for _, _, healths in GROUPS.values() for health in healths}
    shares, x = [], 0.0
    for key in _BAR:
        word, tone, healths = GROUPS[key]
        count = sum(counts.get(health, 0) for health in healths)
        if Health.UNKNOWN in healths:
            count += sum(number for health, number in counts.items() if str(health) not in known_healths)
        if count:
            width = 100 * count / total
            word = "Needs attention" if key == "attention" and count == 1 else word
            shares.append(Share(word, count, str(tone), f"/ui/connectors?state={key}", round(x, 2), round(width, 2)))
            x += width
    return shares


@dataclass(frozen=True, slots=True)
class Start:
    """A suggested first connector. class_name: as users write it; settings: in addition to the plugin's sample;
    command: to run first, "" for none; topic: where the records go, "" if the source decides.
    """

    title: str
    icon: str
    about: str
    class_name: str
    name: str
    more: Reference
    settings: tuple[tuple[str, str], ...] = ()
    command: str = ""
    topic: str = ""

    @property
    def address(self) -> str:
        """The address of the prefilled form."""
        fields = [(SETTING + name, value) for name, value in self.settings]
        return "/ui/new?" + urlencode([("class", self.class_name), ("sample", "1"), ("name", self.name), *fields])


STARTS: Final = (
    Start(
        "A text file",
        "file-text",
        "Every line becomes a record, and lines that are appended follow. Nothing to install.",
        "FileStreamSource",
        "lines",
        Reference("connectors#filestreamsource", "FileStreamSource"),
        (("file", "/tmp/lines.txt"), ("topic", "lines")),  # noqa: S108 - `ringfence up` lets configurations read there
        "printf 'one\\ntwo\\nthree\\n' > /tmp/lines.txt",
        "lines",
    ),
    Start(
        "A PostgreSQL database",
        "database",
        "The rows of its tables, and then each change, by logical replication. The form checks the server and lists "
        "its tables.",
        "PostgresSource",
        "shop",
        Reference("postgres#five-minutes-to-the-first-table", "Five minutes to the first table"),
    ),
    Start(
        "A REST API",
        "app-window",
        "Pages of JSON, requested as often as you choose. The preview shows its rows before anything is written.",
        "DltSource",
        "orders",
        Reference("dlt#five-minutes-to-the-first-record", "REST APIs"),
    ),
)


WRONG_SHOWN = 10
HANGING_SHOWN = 20
EVENTS_SHOWN = 12
LOGS_SHOWN = 100
_HEALTHS = (
    *(Health.UNHEALTHY, Health.DEGRADED, Health.RETRYING, Health.WAITING, Health.STALLED),
    *(Health.HEALTHY, Health.COMPLETE, Health.PAUSED, Health.STOPPED),
)
_MOVING = GROUPS["motion"][2]
"""States in which an older failure belongs to a configuration that was replaced."""
_MAY_WAIT = MAY_WAIT & _MOVING


@dataclass(frozen=True, slots=True)
class Problem:
    """A connector that needs attention. cause: its own failure or a task's, without secrets."""

    connector: Connector
    look: Badge
    reason: str
    since_ms: int
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many connectors have a health, linked to the list of them."""

    word: str
    count: int
    address: str
    look: Badge


def overview(who: Principal = EVERYBODY_HERE, query: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the whole context of the page. query: of its address, the range of the time axis."""
    now_ms = int(time.time() * 1000)
    span = read_span(query or {}, 1, now_ms)
    connectors = Connector.objects.filter(who.query(), known=True)
    healths = known_health()
    by_health = connectors.annotate(now_health=healths.column).values("now_health").order_by().annotate(n=Count("name"))
    counts = {row["now_health"]: row["n"] for row in by_health}
    sums = connectors.aggregate(
        letters=Sum("recent_dead_letters"),
        skipped=Sum("recent_skipped"),
        running=Sum("tasks_running"),
        failed=Sum("tasks_failed"),
        all=Sum("task_count"),
    )
    letters, skipped = sums["letters"] or 0, sums["skipped"] or 0
    of_tasks = Task.objects.filter(who.query(field="connector"), known=True)
    live = Q(reported_ms__gt=now_ms - LIVE_MS)
    has_open, has_time = Q(open_since_ms__gt=0), Q(data_as_of_ms__gt=0, state="RUNNING")
    numbers = of_tasks.aggregate(
        rate=Sum("rate", filter=live),
        data=Min("data_as_of_ms", filter=has_time),
        open=Count("id", filter=has_open),
        oldest=Min("open_since_ms", filter=has_open),
    )
    oldest_open_ms = numbers["oldest"] or 0
    workers = list(Worker.objects.order_by("worker"))
    cluster = ClusterInfo.objects.first()
    leader = leader_of(healths.vitals, cluster.leader if cluster else "")
    waiting: dict[str, str] = {}
    if not healths.vitals.stale and any(counts.get(health) for health in _MAY_WAIT):
        waiting = find_waiting(connectors.filter(health__in=_MAY_WAIT).values("name"))
    wrong, more = _wrong(connectors, counts, waiting, healths)
    begins = not counts and who.may_somewhere(Verb.EDIT)
    return {
        "total": sum(counts.values()),
        "verdict": judge(
            counts, [one.connector.name for one in wrong], stale=healths.vitals.stale, placeless=sorted(waiting)
        ),
        "states": _states(counts),
        "tasks": {key: sums[key] or 0 for key in ("running", "failed", "all")},
        "rate": None if healths.vitals.stale else numbers["rate"] or 0.0,
        "bad_records": letters + skipped,
        "bad_records_told": bad_records(letters, skipped),
        "open_transactions": numbers["open"] if 0 < oldest_open_ms < now_ms - _OPEN_MS else 0,
        "oldest_open_ms": oldest_open_ms,
        "oldest_data_ms": numbers["data"] or 0,
        "workers": workers,
        "slots": sum(worker.slots for worker in workers),
        "leader": leader,
        "vitals_known": healths.vitals.is_known,
        "topics_lost": cluster.topics_lost if cluster else "",
        "leader_since_ms": cluster.since_ms if cluster and leader else 0,
        "mixed": lagging((worker.worker, worker.mode) for worker in workers),
        "clocks": describe_largest(clocks.offsets()),
        "hanging": _hanging(connectors, who),
        "wrong": wrong,
        "wrong_more": more,
        "axis": draw_axis(Scope(who), span, "/ui/"),
        "span": span,
        "range": span.query if is_asked(query or {}) else "",
        "events": _events(who, span if is_asked(query or {}) else None),
        "now_ms": now_ms,
        **(_beginning() if begins else {}),
    }


def _beginning() -> dict[str, Any]:
    """Return the context of an empty installation, for users who may create a connector."""
    return {"starts": STARTS, **consumption([start.topic for start in STARTS if start.topic])}


def _hanging(connectors: Any, who: Principal) -> list[HangingTransaction]:
    """Return hanging transactions on topics of visible connectors. Those on the platform's own topics require access to
    everything.
    """
    rows = list(HangingTransaction.objects.order_by("last_ms", "id")[:HANGING_SHOWN])
    if not rows or who.may_everywhere(Verb.VIEW):
        return rows
    names = set(connectors.values_list("name", flat=True))
    return [row for row in rows if names & set(json.loads(row.connectors))]


def _states(counts: dict[str, int]) -> list[StateCount]:
    """Return the healths that connectors have, the worst first."""
    states = [
        StateCount(HEALTH[health].word, count, f"/ui/connectors?state={health.lower()}", HEALTH[health])
        for health in _HEALTHS
        if (count := counts.get(health, 0))
    ]
    if motion := sum(counts.get(health, 0) for health in GROUPS["motion"][2]):
        states.append(StateCount("In motion", motion, "/ui/connectors?state=motion", HEALTH[Health.STARTING]))
    if unknown := sum(count for health, count in counts.items() if health == Health.UNKNOWN or health not in HEALTH):
        states.insert(0, StateCount("Unknown", unknown, "/ui/connectors?state=unknown", HEALTH[Health.UNKNOWN]))
    return states


def _wrong(
    connectors: Any, counts: Mapping[str, int], waiting: Mapping[str, str], now: KnownHealth
) -> tuple[list[Problem], int]:
    """Return the worst connectors with their causes, and how many more there are. waiting: the message about free
    slots, by connector.
    """
    healths = GROUPS["attention"][2]
    needs = Q(now_health__in=healths) | Q(name__in=waiting)
    matches = connectors.annotate(now_health=now.column).filter(needs)
    matches = matches.annotate(now_severity=now.severity_column)
    worst = list(matches.order_by("-now_severity", "health_since_ms", "name")[:WRONG_SHOWN])
    sick = [row.name for row in worst if row.health not in _MOVING]
    failed_tasks = Task.objects.filter(connector__in=sick, known=True, state="FAILED")
    traces: dict[str, str] = {}
    for task in failed_tasks.order_by("connector", "number").only("connector", "trace"):
        traces[task.connector] = traces.get(task.connector) or task.trace
    retrying = [row.name for row in worst if row.health == Health.RETRYING]
    failed = Task.objects.filter(connector__in=retrying, known=True, failed_ms__gt=0).order_by("connector", "number")
    for task in failed.only("connector", "failed_trace") if retrying else ():
        traces[task.connector] = traces.get(task.connector) or task.failed_trace
    tasks = Task.objects.filter(connector__in=retrying, known=True).exclude(retry="").order_by("-connector", "-number")
    refusals = {task.connector: task.poll_retry for task in tasks.only("connector", "retry")} if retrying else {}
    masker = Masker({row.class_name for row in worst})
    problems = []
    for row in worst:
        trace = row.unreadable or (row.trace if row.state == "FAILED" else "") or traces.get(row.name, "")
        cause = cause_of(masker.scrub(trace, row.settings)) if trace else None
        if retry := refusals.get(row.name):
            cause = Cause(drop_numbers(masker.scrub(retry.cause, row.settings)), "", "", None)
        why = reason(row, now, waiting.get(row.name, ""))
        problems.append(Problem(row, look_of(row, now), why, now.since_ms(row), cause))
    return problems, matches.count() - len(problems)


def list_log_lines(who: Principal, span: Span) -> dict[str, Any]:
    """Return the context of the newest log lines of a range, of all connectors that the user may see."""
    lines = list(
        find_range(span.from_ms, span.to_ms).filter(who.query(field="connector")).order_by("-id")[: LOGS_SHOWN + 1]
    )
    rows = Connector.objects.in_bulk({line.connector for line in lines})
    masker = Masker({row.class_name for row in rows.values()})
    texts = [
        (line, masker.scrub(line.message, rows[line.connector].settings)) for line in lines if line.connector in rows
    ]
    return {"lines": texts[:LOGS_SHOWN], "more": len(lines) > LOGS_SHOWN, "most": LOGS_SHOWN, "range": span.query}


def _events(who: Principal, span: Span | None) -> list[EventView]:
    """Return the newest notable events, of a range if there is one: of tasks only failures, since each start has many
    stages.
    """
    condition = who.query(field="connector")
    if condition:  # an empty Q matches everything, but is dropped when combined with another condition
        condition |= Q(connector="")
    events = Event.objects.filter(condition).exclude(type="log").exclude(~Q(summary__contains=": failed"), type="task")
    if span is not None:
        events = events.filter(time_ms__gte=span.from_ms, time_ms__lt=span.to_ms)
    groups = fold(events.order_by("-time_ms", "-id")[: EVENTS_SHOWN * 10])[:EVENTS_SHOWN]
    newest = [group[0] for group in groups]
    for group in groups:
        group[0].summary = headline(group)
    rows = Connector.objects.in_bulk({event.connector for event in newest if event.connector})
    masker = Masker({row.class_name for row in rows.values()})
    return [
        event_view(event, masker, rows[event.connector].settings if event.connector in rows else {}) for event in newest
    ]
