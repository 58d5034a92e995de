"""A connector's health: derived from its target state and its tasks' states, like Redpanda Console; as it is known now;
and in words.

The projection stores the derived health, whose number is the severity: lists show the highest first. The known health
(`KnownHealth`) is that, unless the projection is out of date, the connector's worker is silent or gone, or a motion
lasts for too long. It alone decides: pages, API, command line, metrics, alerts and `/health` all use it. If they showed
the last known state as the current one, they would be wrong when it matters most.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from django.db.models import Case, CharField, F, Min, Q, QuerySet, SmallIntegerField, Value, When

from ringfence.connectors.java.connection_trouble import PREFIX as LOGGED
from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.clock import epoch_ms
from ringfence.fencing.topics.status import KAFKA
from ringfence.heartbeats.cluster_health import Vitals
from ringfence.heartbeats.cluster_view import look
from ringfence.plain_queries import among, delete, read, select, update_each
from ringfence.projection.models import Connector, Minute, RecordTotals, Task


class Health(StrEnum):
    """Derived health, most severe first. WAITING is never stored: it is a motion that lasts (`KnownHealth`)."""

    UNHEALTHY = "UNHEALTHY"
    DEGRADED = "DEGRADED"
    RETRYING = "RETRYING"
    WAITING = "WAITING"
    STALLED = "STALLED"
    UNKNOWN = "UNKNOWN"
    FENCING = "FENCING"
    RESTARTING = "RESTARTING"
    STARTING = "STARTING"
    PAUSING = "PAUSING"
    STOPPING = "STOPPING"
    HEALTHY = "HEALTHY"
    COMPLETE = "COMPLETE"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


SEVERITY = {
    Health.UNHEALTHY: 90,
    Health.DEGRADED: 80,
    Health.RETRYING: 78,
    Health.WAITING: 77,
    Health.STALLED: 75,
    Health.UNKNOWN: 70,
    Health.FENCING: 60,
    Health.RESTARTING: 60,
    Health.STARTING: 50,
    Health.PAUSING: 50,
    Health.STOPPING: 50,
    Health.HEALTHY: 30,
    Health.COMPLETE: 25,
    Health.PAUSED: 20,
    Health.STOPPED: 10,
}

MOTION: Final = frozenset({Health.FENCING, Health.RESTARTING, Health.STARTING, Health.PAUSING, Health.STOPPING})
"""On the way to what was requested."""


class Trouble(StrEnum):
    """Why a connector moves nothing, although it should."""

    NONE = ""
    SOURCE = "source"
    LOGGED = "logged"
    """A plugin's log says that it cannot connect, while its `poll` says nothing (`java.connection_trouble`)."""
    KAFKA = "kafka"
    FAILURE = "failure"
    """A task has failed, and nothing shows that it has recovered (`projection.stalls`)."""
    MOTION = "motion"


RETRYING: Final = "RETRYING"
"""In place of RUNNING, for a task whose source or Kafka refuses, or that has not recovered from a failure."""
RECOVERING: Final = "RECOVERING"
"""In place of the state of a task that has failed, and starts again."""
_AT_WORK: Final = ("RUNNING", RETRYING)
_TRIES_AGAIN: Final = frozenset({RETRYING, RECOVERING})
_KNOWN_STATES = {"", "RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING", *_TRIES_AGAIN}


def health_of(connector: Connector, tasks: Mapping[str, int]) -> Health:  # noqa: C901 - decisions in the order of their rank
    """Return the health. tasks: how many of the newest generation's tasks are in each state, none in no state;
    "" stands for those without a status yet; `RETRYING` and `RECOVERING` in place of some other states.
    """
    if connector.unreadable or connector.state == "FAILED" or tasks.keys() == {"FAILED"}:
        return Health.UNHEALTHY
    if connector.state not in _KNOWN_STATES or any(state not in _KNOWN_STATES for state in tasks):
        return Health.UNKNOWN
    if connector.target == "STOPPED":
        return Health.STOPPED if connector.state == "STOPPED" and not tasks else Health.STOPPING
    if "FAILED" in tasks:
        return Health.DEGRADED
    if connector.fencing:
        return Health.FENCING
    if connector.target == "PAUSED":
        resting = connector.state == "PAUSED" and all(state == "PAUSED" for state in tasks)
        return Health.PAUSED if resting else Health.PAUSING
    if not connector.stale and not _TRIES_AGAIN.isdisjoint(tasks):
        return Health.RETRYING
    if "RESTARTING" in (connector.state, *tasks):
        return Health.RESTARTING
    if connector.state == "RUNNING" and not connector.stale and all(state in _AT_WORK for state in tasks):
        if not tasks:
            return Health.COMPLETE if connector.last_commit_ms else Health.UNHEALTHY
        if connector.stalled:
            return Health.STALLED
        return Health.DEGRADED if connector.recent_skipped or connector.recent_dead_letters else Health.HEALTHY
    return Health.STARTING


def is_past(connector: Connector, task: Task) -> bool:
    """Return whether it failed with a replaced configuration, so that its error does not concern the new one."""
    return _is_past(connector, task.state, task.generation)


def is_recovering(connector: Connector, task: Task) -> bool:
    """Return whether it failed, was started again, and nothing shows that it has recovered."""
    is_current = not connector.stale and task.generation == connector.generation
    return bool(task.failed_ms) and task.state != "FAILED" and is_current


def _is_past(connector: Connector, state: str, generation: int) -> bool:
    return state == "FAILED" and (connector.stale or generation not in (-1, connector.generation))


def refresh(names: Collection[str]) -> None:
    """Update health, severity and counts of these connectors from their rows; delete the rows of those that are gone.

    A few queries for any number of names. Inside the transaction that changed them.
    """
    if not names:
        return
    condition = f"{among('connector', names)} AND NOT known AND next_config = '' AND state = '' AND reported_ms = 0"
    delete(Task, condition, *names)
    connectors = read(Connector, among("name", names), *names)
    before = [_derived(connector) for connector in connectors]
    states = _count_states({connector.name: connector for connector in connectors})
    healths = {connector.name: health_of(connector, states[connector.name]) for connector in connectors}
    refusals = _find_refusals([name for name, health in healths.items() if health is Health.RETRYING])
    now_ms = epoch_ms()
    for connector in connectors:
        tasks, health = states[connector.name], healths[connector.name]
        if health in MOTION:
            lasts = connector.trouble == Trouble.MOTION and connector.health in MOTION
            trouble = Trouble.MOTION, connector.trouble_since_ms if lasts else now_ms
        else:
            trouble = refusals.get(connector.name, (Trouble.NONE, 0))
        began_ms = _find_begin(connector, is_failing=trouble[0] is Trouble.FAILURE or tasks["FAILED"] > 0)
        if began_ms and trouble[1]:
            trouble = trouble[0], min(began_ms, trouble[1])
        connector.trouble, connector.trouble_since_ms = trouble
        if health != connector.health or not connector.health_since_ms:
            connector.health_since_ms = connector.trouble_since_ms or began_ms or now_ms
        connector.health, connector.severity = health, SEVERITY[health]
        connector.stalled = health is Health.STALLED
        connector.tasks_running = sum(tasks[state] for state in _AT_WORK)
        connector.tasks_failed = tasks["FAILED"]
    now = [_derived(connector) for connector in connectors]
    changed = [values for values, old in zip(now, before, strict=True) if values != old]
    update_each(Connector, ", ".join(f"{name} = %s" for name in _DERIVED), "name = %s", changed)
    gone_names = [connector.name for connector in connectors if not connector.known and not connector.state]
    if gone_names:
        Connector.objects.filter(name__in=gone_names).delete()
        Task.objects.filter(connector__in=gone_names).delete()
        Minute.objects.filter(connector__in=gone_names).delete()
        RecordTotals.objects.filter(connector__in=gone_names).delete()


_DERIVED: Final = (
    "health", "health_since_ms", "severity", "stalled", "tasks_running", "tasks_failed", "trouble", "trouble_since_ms",
)  # fmt: skip
_derived: Final = attrgetter(*_DERIVED, "name")


def _find_begin(connector: Connector, *, is_failing: bool) -> int:
    """Return since when its tasks fail, through all automatic restarts; 0 if they do not, or did not before.

    connector: as it was before.
    """
    failed_before = bool(connector.tasks_failed) or connector.trouble == Trouble.FAILURE
    return connector.health_since_ms if is_failing and failed_before else 0


def _count_states(connectors: Mapping[str, Connector]) -> Mapping[str, Counter[str]]:
    """Count the tasks of each connector in each state. The database does: a connector may have thousands."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in connectors}
    if not connectors:
        return counts
    columns = "connector, state, generation, COUNT(*), " + ", ".join(
        f"SUM(CASE WHEN {which} THEN 1 ELSE 0 END)"
        for which in ("retry <> ''", "failed_ms > 0", "retry <> '' OR failed_ms > 0")
    )
    condition = f"{among('connector', connectors)} AND known GROUP BY connector, state, generation"
    rows = select(Task, columns, condition, *connectors)
    for name, state, generation, count, retrying, failed_before, troubled in rows:
        current = generation == connectors[name].generation
        label, instead, some = state, "", 0
        if _is_past(connectors[name], state, generation):
            label = ""
        elif state == "RUNNING":
            instead, some = RETRYING, troubled if current else retrying
        elif state in ("UNASSIGNED", "RESTARTING") and current:
            instead, some = RECOVERING, failed_before
        counts[name] += Counter({label: count - some})
        counts[name] += Counter({instead: some})
    return counts


def _find_refusals(names: Collection[str]) -> dict[str, tuple[Trouble, int]]:
    """Return the trouble of each of these connectors, all of which are retrying, and since when it lasts."""
    if not names:
        return {}
    tasks = Task.objects.filter(connector__in=names, known=True)
    retries: dict[str, list[dict[str, object]]] = {}
    for name, retry in tasks.filter(state="RUNNING").exclude(retry="").values_list("connector", "retry"):
        retries.setdefault(name, []).append(json.loads(retry))
    refusals = {
        name: (
            _name_trouble(some),
            min(int(str(retry["since_ms"])) for retry in some),
        )
        for name, some in retries.items()
    }
    failures = tasks.filter(failed_ms__gt=0).exclude(connector__in=list(refusals)).values_list("connector")
    refusals.update({name: (Trouble.FAILURE, since) for name, since in failures.annotate(since=Min("failed_ms"))})
    return refusals


def _name_trouble(retries: Sequence[Mapping[str, object]]) -> Trouble:
    if all(retry.get("by") == KAFKA for retry in retries):
        return Trouble.KAFKA
    is_logged = all(str(retry.get("cause")).startswith(LOGGED) for retry in retries)
    return Trouble.LOGGED if is_logged else Trouble.SOURCE


def find_data_age(tasks: Sequence[Task]) -> int:
    """Return since when a change of the source may be missing, in milliseconds since the epoch: all that the source had
    then is committed, by all of these tasks. 0 if that is unknown.
    """
    return min((task.data_as_of_ms for task in tasks), default=0)


def find_data_ages(connectors: Collection[str]) -> dict[str, int]:
    """Return the same by connector, for those with tasks. The database does: a connector may have thousands."""
    tasks = Task.objects.filter(connector__in=connectors, known=True).values_list("connector")
    return dict(tasks.annotate(oldest_ms=Min("data_as_of_ms")))


PATIENCE_MS: Final = 30_000
"""A connector that is on its way to what was requested for longer than this needs attention."""
ATTENTION: Final = frozenset(
    {Health.UNHEALTHY, Health.DEGRADED, Health.RETRYING, Health.WAITING, Health.STALLED, Health.UNKNOWN}
)
_WORKING = ("RUNNING", "PAUSED", "RESTARTING")
_RUNS: Final = (Health.HEALTHY, Health.RETRYING, Health.STALLED)
"""What the tasks of a worker that is gone may have left behind."""


@dataclass(frozen=True, slots=True)
class KnownHealth:
    """unsure: connectors with a task on a worker that does not report; left: connectors whose tasks ran on a worker's
    earlier process, and for how many milliseconds that has been gone.
    """

    vitals: Vitals = field(default_factory=Vitals)
    unsure: frozenset[str] = frozenset()
    left: dict[str, int] = field(default_factory=dict)
    now_ms: int = field(default_factory=lambda: epoch_ms())

    def health_of(self, connector: Connector) -> Health:
        """Return the connector's health, or that it is unknown."""
        if self.vitals.stale or connector.name in self.unsure:
            return Health.UNKNOWN
        try:
            health = Health(connector.health)
        except ValueError:
            return Health.UNKNOWN
        if self._is_left(connector):
            return Health.WAITING if self.left[connector.name] >= PATIENCE_MS else Health.STARTING
        lasts = 0 < connector.trouble_since_ms <= self.now_ms - PATIENCE_MS
        return Health.WAITING if health in MOTION and lasts else health

    def doubt(self, connector: Connector) -> str:
        """Return why its health is unknown or not the projection's, and what it was; "" if it is known."""
        was = connector.health.lower() or "unknown"
        if self.vitals.stale:
            return f"It was {was} when it was last heard of; nothing newer is known"
        if connector.name in self.unsure:
            return f"Its worker does not report; it was {was}"
        if self._is_left(connector):
            return "Its worker was started again or stopped, and its tasks have not followed yet"
        return ""

    def lasts_ms(self, connector: Connector) -> int:
        """Return for how long it has needed attention, 0 if it does not or if that is unknown."""
        match self.health_of(connector):
            case Health.UNKNOWN if self.vitals.stale:
                return self.vitals.behind_s * 1000
            case Health.UNKNOWN:
                silent_ms = [problem.since_ms for problem in self.vitals.problems if problem.key.startswith("silent-")]
                return max(0, self.now_ms - min(silent_ms, default=self.now_ms))
            case Health.WAITING if self._is_left(connector):
                return self.left[connector.name]
            case Health.WAITING | Health.RETRYING:
                return max(0, self.now_ms - connector.trouble_since_ms)
        return 0

    def since_ms(self, connector: Connector) -> int:
        """Return since when it has this health, 0 if that is unknown."""
        lasts_ms = self.lasts_ms(connector)
        if lasts_ms:
            return self.now_ms - lasts_ms
        return 0 if self.health_of(connector) is Health.UNKNOWN else connector.health_since_ms or connector.since_ms

    def _is_left(self, connector: Connector) -> bool:
        return connector.name in self.left and connector.health in _RUNS

    @property
    def column(self) -> Any:
        """Return `health_of` as an expression for a query of connectors."""
        if self.vitals.stale:
            return Value(Health.UNKNOWN.value)
        rules = (When(condition, then=Value(health.value)) for condition, health in self._rules())
        return Case(*rules, default=F("health"), output_field=CharField())

    @property
    def severity_column(self) -> Any:
        """Return the severity of `health_of` as an expression for a query of connectors."""
        if self.vitals.stale:
            return Value(SEVERITY[Health.UNKNOWN])
        rules = (When(condition, then=Value(SEVERITY[health])) for condition, health in self._rules())
        return Case(*rules, default=F("severity"), output_field=SmallIntegerField())

    def _rules(self) -> list[tuple[Q, Health]]:
        rules = [(Q(name__in=self.unsure), Health.UNKNOWN)] if self.unsure else []
        long_left = [name for name, lasts_ms in self.left.items() if lasts_ms >= PATIENCE_MS]
        runs = Q(health__in=_RUNS)
        if long_left:
            rules.append((runs & Q(name__in=long_left), Health.WAITING))
        if self.left:
            rules.append((runs & Q(name__in=self.left), Health.STARTING))
        lasts = Q(trouble_since_ms__gt=0, trouble_since_ms__lte=self.now_ms - PATIENCE_MS)
        return [*rules, (lasts & Q(health__in=MOTION), Health.WAITING)]


def known_health() -> KnownHealth:
    """Return the current health. It needs no query while all workers report and none was started a moment ago."""
    vitals = look.vitals()
    if vitals.stale:
        return KnownHealth(vitals)
    unsure: frozenset[str] = frozenset()
    if silent := {worker for worker, _ in vitals.silent}:
        placed = Task.objects.filter(known=True, worker__in=silent, state__in=_WORKING)
        unsure = frozenset(placed.values_list("connector", flat=True))
    return KnownHealth(vitals, unsure, _find_left(vitals))


def _find_left(vitals: Vitals) -> dict[str, int]:
    left: dict[str, int] = {}
    for former in vitals.former_processes:
        rows = Task.objects.filter(known=True, worker=former.worker, state="RUNNING")
        for name in rows.exclude(incarnation__in=("", former.incarnation)).values_list("connector", flat=True):
            left[name] = max(left.get(name, 0), round(former.since_s * 1000))
    return left


def count_attention(connectors: QuerySet[Connector], health: KnownHealth) -> int:
    """Return how many of these connectors need attention."""
    return connectors.annotate(now_health=health.column).filter(now_health__in=ATTENTION).count()


def find_late(after_ms: int, now_ms: int) -> list[str]:
    """Return the connectors whose motion has lasted too long since `after_ms`: nothing else tells the pages."""
    rows = Connector.objects.filter(known=True, health__in=MOTION)
    late = rows.filter(trouble_since_ms__gt=after_ms - PATIENCE_MS, trouble_since_ms__lte=now_ms - PATIENCE_MS)
    return list(late.values_list("name", flat=True))


def leader_of(vitals: Vitals, fallback: str) -> str:
    """Return the leader. fallback: the status topic's, for the case without heartbeats."""
    return vitals.leader if vitals.is_known else fallback


_WAITS: Final[Mapping[str, str]] = {
    "placed": "It is placed on {worker}, which has not started it yet",
    "restarted": "Its restart on {worker} has not begun yet",
    "lost": "Its attempt was lost, and no worker has a free slot for it",
    "": "It has no worker yet",
}
"""By `Task.why`."""


def describe_wait(task: Task, slots: str) -> str:
    """Return the message. slots: for a task without a slot. An attempt's own words may name settings: mask them."""
    if task.why == "no-slot":
        return slots
    return _WAITS.get(task.why, "").format(worker=task.worker or "a worker") or task.why


_TROUBLES: Final[Mapping[str, str]] = {
    Trouble.SOURCE: "Its source cannot be read; it is tried again",
    Trouble.LOGGED: "Its plugin logs that it cannot connect, and tries again",
    Trouble.KAFKA: "Kafka takes none of its records; it is tried again",
    Trouble.FAILURE: "A task has failed and starts again; nothing has flowed since",
}
_FIXED: Final[Mapping[str, str]] = {
    Health.UNKNOWN: "It reports an unknown state",
    Health.FENCING: "Older tasks are fenced first",
    Health.PAUSING: "Tasks commit what they have",
    Health.STOPPING: "Tasks commit what they have",
}


def describe_duration(ms: int) -> str:
    """Write a duration as people say it: `40 s`, `3 min`, `2 h`, `5 d`."""
    seconds = ms // 1000
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _tasks(count: int) -> str:
    return write_count(count, "task")


def bad_records(dead_letters: int, skipped: int) -> str:
    """Describe the records that did not reach their topics; "" for none."""
    letters = write_count(dead_letters, "dead letter") if dead_letters else ""
    skips = f"{write_count(skipped, 'record')} skipped" if skipped else ""
    return ", ".join(filter(None, (letters, skips)))


def reason(connector: Connector, health: KnownHealth, waits: str = "") -> str:
    """Return the reason, "" if the health's name is clear enough. waits: the message about slots."""
    return health.doubt(connector) or waits or reason_of_health(connector)


def reason_with_time(connector: Connector, health: KnownHealth, waits: str = "") -> str:
    """Return the same, with the time that it has lasted, where nothing beside it says so."""
    text, lasts_ms = reason(connector, health, waits), health.lasts_ms(connector)
    if health.health_of(connector) in (Health.WAITING, Health.RETRYING) and lasts_ms >= 1000:
        return f"{text}, for {describe_duration(lasts_ms)}" if text else f"For {describe_duration(lasts_ms)}"
    return text


def reason_of_health(connector: Connector) -> str:
    """Return the reason, "" if the health's name is clear enough."""
    count, running, failed = connector.task_count, connector.tasks_running, connector.tasks_failed
    match connector.health:
        case Health.RETRYING:
            return _TROUBLES.get(connector.trouble, "It is tried again")
        case Health.UNHEALTHY:
            return _reason_of_failure(connector)
        case Health.DEGRADED if failed:
            return f"{failed} of {_tasks(count)} failed"
        case Health.DEGRADED:
            return f"{bad_records(connector.recent_dead_letters, connector.recent_skipped)} in the last hour"
        case Health.STALLED:
            usual = f" (until now {connector.usual_pause} min at most)" if connector.usual_pause else ""
            return f"No records for longer than usual{usual}"
        case Health.STARTING if connector.stale:
            return "Its tasks wait for their new configuration"
        case Health.STARTING | Health.RESTARTING:
            return f"{running} of {_tasks(count)} running"
    return _FIXED.get(connector.health, "")


def _reason_of_failure(connector: Connector) -> str:
    if connector.unreadable:
        return "Its configuration in Kafka cannot be read"
    if connector.state == "FAILED":
        return "The connector itself has failed"
    match connector.tasks_failed:
        case 0:
            return "It runs without a task"
        case 1:
            return "Its only task has failed"
        case failed:
            return f"All {failed} tasks have failed"
