"""`…/history`, also for the pages: a connector's or the cluster's history as series on one time axis, with what people
changed, what was fenced, and what died or was deleted.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Max, Min, Q, QuerySet, Sum
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.authorise import on_connector, principal_of
from ringfence.access.principal import Principal, Verb, display_name
from ringfence.api import connector_reads
from ringfence.api.v1.base import V1View
from ringfence.api.v1.request_fields import IntegerField, QueryShape
from ringfence.audit.models import Outcome
from ringfence.audit.trail import describe_deed, entries
from ringfence.fencing.clock import epoch_ms
from ringfence.history.models import ConfigVersion
from ringfence.http.errors import bad_request
from ringfence.projection.health import RETRYING
from ringfence.projection.history_points import AT_REST, FAILED, HOUR, MINUTE, NOBODY, SUMS, stored_minutes
from ringfence.projection.models import Connector, Event, GenerationRow, HistoryPoint, Minute, Task, Tombstone
from ringfence.projection.status_rows import TOPIC_REPLACED, WORKER_GONE
from ringfence.projection.task_minutes import EVERYTHING, minute_of, shown_state, worst

MOST_POINTS: Final = 720
LONGEST_DAYS: Final = 400
_MINUTE_MS: Final = 60_000
_MOST_MARKS: Final = 500
_LATE_MINUTES: Final = 5

_COLUMNS: Final = (
    "minute", "minutes", "state", *SUMS, "open_transactions", "commit_sum_ms", "commit_count", "commit_max_ms", "lag",
    "lag_name", "age_ms",
)  # fmt: skip
LIVE_MINUTES: Final = 60
"""So many minutes are read from the tasks' own rows where none is summed yet, as in a new installation."""
KINDS: Final = ("config", "action", "fence", "worker", "topic", "delete")
"""The kinds of marks: a configuration, what else a person did, a finished fencing round, a worker that is gone, a topic
that was created again, a deleted connector.
"""
_SAME_MS: Final = 60_000
"""Connectors that lose a worker within this time lost the same one."""


@dataclass(frozen=True, slots=True)
class Range:
    """Minutes since the epoch, with the end excluded. step: minutes per point; source: minutes per row."""

    first: int
    end: int
    step: int
    source: int


def oldest_ms(connector: str) -> int | None:
    """Return the time of the connector's oldest stored data; None if there is none."""
    is_hour, mine = Q(step=HOUR), HistoryPoint.objects.filter(connector=connector)
    oldest = mine.aggregate(first=Min("minute", filter=~is_hour), hour=Min("minute", filter=is_hour))
    minute, hour = oldest["first"], oldest["hour"]
    if minute is None or (hour is not None and hour < minute // HOUR * HOUR):
        minute = hour
    return None if minute is None else minute * _MINUTE_MS


def choose_range(from_ms: int, to_ms: int, oldest: int | None, most: int = MOST_POINTS) -> Range:
    """Choose a range of whole points, at most `most`; in hours if the minutes are no longer stored. Pure.

    oldest: the first minute that is stored; None for none yet.
    """
    first, end = from_ms // _MINUTE_MS, -(-to_ms // _MINUTE_MS)
    step = max(1, -(-(end - first) // most))
    source = MINUTE if first >= (oldest or 0) and step < HOUR else HOUR
    step = max(step, source)
    if source == HOUR:
        step = -(-step // HOUR) * HOUR
    return Range(first // step * step, -(-end // step) * step, step, source)


def put_together(rows: Iterable[Mapping[str, Any]], present: Mapping[int, int], span: Range) -> list[dict[str, Any]]:
    """Return one point per step. All of its series are None if nothing was recorded then, and no report came later.
    Pure.

    rows: the connector's; present: by minute, for how many minutes a recorder was running.
    """
    buckets: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        buckets.setdefault((row["minute"] - span.first) // span.step, []).append(row)
    there = {(minute - span.first) // span.step for minute, count in present.items() if count}
    return [
        _point(span.first + at * span.step, buckets.get(at, []), at in there or at in buckets)
        for at in range((span.end - span.first) // span.step)
    ]


def _point(minute: int, rows: Sequence[Mapping[str, Any]], is_known: bool) -> dict[str, Any]:
    if not is_known:
        blank = dict.fromkeys((*SUMS, "open_transactions", "commit_ms", "commit_max_ms", "lag", "age_ms", "state"))
        return {"time_ms": minute * _MINUTE_MS, **blank}
    commits = sum(row["commit_count"] for row in rows)
    lags, ages = ([row[name] for row in rows if row[name] is not None] for name in ("lag", "age_ms"))
    return {
        "time_ms": minute * _MINUTE_MS,
        "state": worst(row["state"] for row in rows if row["state"]),
        **{name: sum(row[name] for row in rows) for name in SUMS},
        "open_transactions": max((row["open_transactions"] for row in rows), default=0),
        "commit_ms": sum(row["commit_sum_ms"] for row in rows) / commits if commits else None,
        "commit_max_ms": max((row["commit_max_ms"] for row in rows), default=0) if commits else None,
        "lag": max(lags, default=None),
        "age_ms": max(ages, default=None),
    }


@dataclass(frozen=True, slots=True)
class Scope:
    """What an axis is about, and who looks at it. connector: "" for all that they may see."""

    who: Principal
    connector: str = ""

    @property
    def is_whole(self) -> bool:
        """Return whether it is about the cluster as a whole."""
        return not self.connector and self.who.may_everywhere(Verb.VIEW)

    def query(self, field: str = "connector") -> Q:
        """Return the condition on the field with a connector's name."""
        return Q(**{field: self.connector}) if self.connector else self.who.query(field=field)

    def may_name_authors(self, connector: str) -> bool:
        """Return whether they may read who changed this connector: as in the audit trail."""
        return self.who.may(Verb.VIEW_CONFIG, connector)


def find_series(
    scope: Scope, from_ms: int, to_ms: int, most: int = MOST_POINTS, *, with_before: bool = False
) -> dict[str, Any]:
    """Return points and marks between two times. Raises `ConnectError` for an invalid range.

    with_before: also `before`, the points of the period before, of the same length; [] if it is not stored as finely.
    """
    if not 0 <= from_ms < to_ms or to_ms - from_ms > LONGEST_DAYS * 86_400_000:
        raise bad_request(f"from must be before to, by at most {LONGEST_DAYS} days; both in milliseconds.")
    now_ms, stored = epoch_ms(), stored_minutes()
    now = minute_of(now_ms)
    end_ms = min(to_ms, (now + 1) * _MINUTE_MS)
    span = choose_range(from_ms, max(from_ms + 1, end_ms), stored.oldest, most)
    before = _before(span, stored.oldest) if with_before else None
    rows, present = _find_rows(scope, Range((before or span).first, span.end, span.step, span.source))
    earlier = [row for row in rows if row["minute"] < span.first]
    rows = [row for row in rows if row["minute"] >= span.first]
    fresh = now - LIVE_MINUTES if stored.newest is None else stored.newest
    if fresh < now and span.end > fresh + 1:
        first, end = max(span.first, fresh + 1), min(span.end, now + 1)
        rows += _find_fresh(scope, first, end, now_ms, followed=now - fresh <= _LATE_MINUTES)
    names = sorted({row["lag_name"] for row in rows if row["lag_name"]})
    series = {
        "from_ms": span.first * _MINUTE_MS,
        "to_ms": span.end * _MINUTE_MS,
        "step_seconds": span.step * 60,
        "lag_name": names[0] if names else "",
        "points": put_together(rows, present, span),
        "marks": find_marks(scope, span.first * _MINUTE_MS, span.end * _MINUTE_MS),
    }
    if with_before:
        series["before"] = put_together(earlier, present, before) if before else []
    return series


def _before(span: Range, oldest: int | None) -> Range | None:
    first = span.first - (span.end - span.first)
    if first < 0 or (span.source == MINUTE and first < (oldest or 0)):
        return None
    return Range(first, span.first, span.step, span.source)


def _find_rows(scope: Scope, span: Range) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """Return the stored rows of a range, and by minute, for how many minutes a recorder was running."""
    between = HistoryPoint.objects.filter(step=span.source, minute__gte=span.first, minute__lt=span.end)
    if scope.connector or scope.is_whole:
        both = between.filter(connector__in={scope.connector, NOBODY}).order_by("minute").values("connector", *_COLUMNS)
        read = list(both)
        present = {row["minute"]: row["minutes"] for row in read if row["connector"] == NOBODY}
        return [row for row in read if row["connector"] == scope.connector], present
    present = dict(between.filter(connector=NOBODY).values_list("minute", "minutes"))
    sums = {f"{name}_": Sum(name) for name in (*SUMS, "open_transactions", "commit_sum_ms", "commit_count")}
    most = {f"{name}_": Max(name) for name in ("commit_max_ms", "age_ms")}
    visible = between.filter(scope.query()).exclude(connector=NOBODY).order_by()
    states: dict[int, list[str]] = {}
    for minute, state in visible.exclude(state="").values_list("minute", "state").distinct():
        states.setdefault(minute, []).append(state)
    rows = [
        {key.removesuffix("_"): value for key, value in row.items()}
        | {"state": worst(states.get(row["minute"], ())), "lag": None, "lag_name": ""}
        for row in visible.values("minute").annotate(**sums, **most)
    ]
    return rows, present


def _find_fresh(scope: Scope, first: int, end: int, now_ms: int, *, followed: bool) -> list[dict[str, Any]]:
    """Return rows of the minutes that are not summed yet, up to the running one: as their tasks have reported.

    followed: whether the platform runs, so that a minute without a report is one in which nothing came.
    """
    minutes = Minute.objects.filter(minute__gte=first, minute__lt=end)
    if scope.is_whole:
        minutes = minutes.filter(connector=EVERYTHING)
    else:
        minutes = minutes.filter(scope.query()).exclude(connector=EVERYTHING)
    sums = {name: Sum(name) for name in SUMS}
    gained = {row["minute"]: row for row in minutes.order_by().values("minute").annotate(**sums)}
    connectors = Connector.objects.filter(scope.query("name"), known=True).exclude(state="")
    states = set(connectors.order_by().values_list("state", flat=True).distinct())
    refused, failed, oldest = False, False, 0
    for task in (
        Task.objects.filter(scope.query(), known=True)
        .order_by()
        .values("state")
        .annotate(refused=Max("retry"), oldest=Min("data_as_of_ms", filter=Q(data_as_of_ms__gt=0)))
    ):
        refused = refused or shown_state(task["state"], task["refused"]) == RETRYING
        failed = failed or task["state"] == FAILED
        if task["oldest"] and (scope.connector or task["state"] not in AT_REST):
            oldest = min(oldest or task["oldest"], task["oldest"])
    state = worst([*(shown_state(each, refused) for each in states), *([FAILED] if failed else [])])
    blank = {**dict.fromkeys(_COLUMNS, 0), "minutes": 1, "state": state, "lag": None, "lag_name": "", "age_ms": None}
    minutes_to_show = [minute for minute in range(first, end) if minute in gained or (followed and states)]
    rows = [{**blank, **gained.get(minute, {}), "minute": minute} for minute in minutes_to_show]
    if rows and oldest and rows[-1]["minute"] == minute_of(now_ms):
        rows[-1]["age_ms"] = max(0, now_ms - oldest)
    return rows


@dataclass(frozen=True, slots=True)
class _Marks:
    """The marks of one range. Each kind has its newest ones."""

    scope: Scope
    from_ms: int
    to_ms: int

    def between(self, rows: "QuerySet[Any]", field: str = "time_ms") -> "QuerySet[Any]":
        """Return the rows of the range, the newest first."""
        within = {f"{field}__gte": self.from_ms, f"{field}__lt": self.to_ms}
        return rows.filter(self.scope.query(), **within).order_by(f"-{field}")

    def collect(self) -> Iterable[dict[str, Any]]:
        """Yield all marks, in no order."""
        yield from self._of_versions()
        if self.scope.connector:  # of the cluster, the deeds: each start of a connector has a round
            yield from self._of_rounds()
        yield from self._of_deeds()
        yield from self._of_warnings()
        yield from self._of_deletions()

    def _mark(self, kind: str, at_ms: int, connector: str, text: str, user: str | None = None, number: int = 0) -> Any:
        by = "" if user is None or not self.scope.may_name_authors(connector) else display_name(user)
        where = f"{connector}: " if connector and not self.scope.connector else ""
        sentence = f"{where}{text}{f', by {by}' if by else ''}"
        return {"time_ms": at_ms, "kind": kind, "number": number, "text": sentence, "connector": connector, "user": by}

    def _of_versions(self) -> Iterable[dict[str, Any]]:
        rows = self.between(ConfigVersion.objects.all()).values_list("time_ms", "connector", "number", "user")
        for at_ms, name, number, user in rows[:_MOST_MARKS]:
            yield self._mark("config", at_ms, name, f"Configuration version {number}", user or None, number)

    def _of_rounds(self) -> Iterable[dict[str, Any]]:
        rows = self.between(GenerationRow.objects.filter(stage="done"), "ended_ms")
        for at_ms, name, number in rows.values_list("ended_ms", "connector", "number")[:_MOST_MARKS]:
            yield self._mark("fence", at_ms, name, f"Generation {number} fenced the older ones", number=number)

    def _of_deeds(self) -> Iterable[dict[str, Any]]:
        """Yield what people did beside configurations, for those who may read the audit trail."""
        rows = self.between(entries(self.scope.who).filter(outcome=Outcome.DONE)).exclude(connector="")
        for entry in rows.exclude(action__in=("edit", "create", "delete"))[:_MOST_MARKS]:
            yield self._mark("action", entry.time_ms, entry.connector, describe_deed(entry), entry.user)

    def _of_warnings(self) -> Iterable[dict[str, Any]]:
        lost: dict[str, dict[str, Any]] = {}
        rows = self.between(Event.objects.filter(type="warning").exclude(connector=""))
        for event in rows[:_MOST_MARKS]:
            body = json.loads(event.body)
            if body.get("kind") == TOPIC_REPLACED:
                yield self._mark(
                    "topic", event.time_ms, event.connector, f"Topic {body['topic']} was deleted and created again"
                )
            elif body.get("kind") == WORKER_GONE:
                mark = lost.get(body["worker"])
                if mark is None or mark["time_ms"] - event.time_ms > _SAME_MS:
                    text = f"{body['worker']} is gone or was started again"
                    lost[body["worker"]] = mark = self._mark("worker", event.time_ms, "", text)
                    yield mark

    def _of_deletions(self) -> Iterable[dict[str, Any]]:
        rows = list(self.between(Tombstone.objects.all()).values_list("time_ms", "connector")[:_MOST_MARKS])
        if not rows:
            return
        deeds = entries(self.scope.who).filter(action="delete", outcome=Outcome.DONE)
        deeds = deeds.filter(connector__in=[name for _, name in rows], time_ms__gte=self.from_ms - _SAME_MS)
        users = {entry.connector: entry.user for entry in deeds.order_by("time_ms")}
        for at_ms, name in rows:
            yield self._mark("delete", at_ms, name, "Deleted", users.get(name))


def find_marks(scope: Scope, from_ms: int, to_ms: int) -> list[dict[str, Any]]:
    """Return what changed, was fenced, died or was deleted, in order of time: `time_ms`, `kind` (one of KINDS),
    `number` (of a version or generation), `text`, `connector` and `user`, "" where unknown or not to be told.
    """
    return sorted(_Marks(scope, from_ms, to_ms).collect(), key=lambda mark: int(mark["time_ms"]))


def version_at(name: str, time_ms: int) -> int | None:
    """Return the number of the connector's configuration version at that time; None if unknown."""
    rows = ConfigVersion.objects.filter(connector=name, time_ms__lte=time_ms).order_by("-number")
    return rows.values_list("number", flat=True).first()


_DAY_MS = 86_400_000


class PointShape(serializers.Serializer[Any]):
    """Null in a gap, in which nothing was recorded. `commit_ms`: the mean; `lag`: null if the source measures none;
    `age_ms`: how old the data in Kafka was at most, null if that is unknown.
    """

    time_ms = serializers.IntegerField()
    state = serializers.CharField(allow_null=True, allow_blank=True)
    records = serializers.IntegerField(allow_null=True)
    commits = serializers.IntegerField(allow_null=True)
    aborted = serializers.IntegerField(allow_null=True)
    skipped = serializers.IntegerField(allow_null=True)
    dead_letters = serializers.IntegerField(allow_null=True)
    fences = serializers.IntegerField(allow_null=True)
    restarts = serializers.IntegerField(allow_null=True)
    failed = serializers.IntegerField(allow_null=True)
    open_transactions = serializers.IntegerField(allow_null=True)
    commit_ms = serializers.FloatField(allow_null=True)
    commit_max_ms = serializers.FloatField(allow_null=True)
    lag = serializers.FloatField(allow_null=True)
    age_ms = serializers.IntegerField(allow_null=True)


class MarkShape(serializers.Serializer[Any]):
    """`number`: of a configuration version or a generation, else 0; `user`: "" where unknown, or where the permission
    `view-config` is missing.
    """

    time_ms = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=KINDS)
    number = serializers.IntegerField()
    text = serializers.CharField()
    user = serializers.CharField(allow_blank=True)


class SeriesShape(serializers.Serializer[Any]):
    """At most 720 points of `step_seconds` each, in order. `lag_name`: the source metric behind `lag`, "" for none."""

    connector = serializers.CharField()
    from_ms = serializers.IntegerField()
    to_ms = serializers.IntegerField()
    step_seconds = serializers.IntegerField()
    lag_name = serializers.CharField(allow_blank=True)
    points = PointShape(many=True)
    marks = MarkShape(many=True)


class HistoryQueryShape(QueryShape):
    from_ = IntegerField(required=False, min_value=0, max_value=2**53)
    to = IntegerField(required=False, min_value=0, max_value=2**53)


class History(V1View):
    """`from` and `to` in milliseconds since the epoch, by default the last 24 hours. By minute for some days, then by
    hour.
    """

    access = {"GET": on_connector(Verb.VIEW)}
    shape = SeriesShape
    queries = {"GET": HistoryQueryShape}

    def get(self, request: Request, name: str) -> Response:
        query = self.parse_query()
        to_ms = query.get("to", epoch_ms())
        from_ms = query.get("from", max(0, to_ms - _DAY_MS))
        connector_reads.connector(name)
        scope = Scope(principal_of(request), name)
        return Response(SeriesShape({**find_series(scope, from_ms, to_ms), "connector": name}).data)
