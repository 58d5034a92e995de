"""The known health: the projection's, unless that is out of date, the connector's worker is silent or gone, or a motion
lasts for too long.

This one function decides: pages, API, command line, metrics, alerts and `/health` all use it. If they showed the last
known state as the current one, they would be wrong when it matters most.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Case, CharField, F, Min, Q, QuerySet, SmallIntegerField, Value, When

from ringfence.heartbeats.cluster_health import Vitals
from ringfence.heartbeats.cluster_view import look
from ringfence.projection.health import MOTION, SEVERITY, Health
from ringfence.projection.models import Connector, Task


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
_AT_WORK = ("RUNNING", "PAUSED", "RESTARTING")
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
    now_ms: int = field(default_factory=lambda: int(time.time() * 1000))

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
        placed = Task.objects.filter(known=True, worker__in=silent, state__in=_AT_WORK)
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
