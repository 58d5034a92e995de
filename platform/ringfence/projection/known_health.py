"""The known health: the projection's, unless that is out of date or the connector's worker does not report.

Pages, API, command line and metrics all use it. If they showed the last known state as the current one, they would be
wrong when it matters most.
"""

from dataclasses import dataclass, field
from typing import Any

from django.db.models import Case, F, Value, When

from ringfence.heartbeats.cluster_health import Vitals
from ringfence.heartbeats.cluster_view import look
from ringfence.heartbeats.problems import format_clock
from ringfence.projection.health import Health
from ringfence.projection.models import Connector, Task

_AT_WORK = ("RUNNING", "PAUSED", "RESTARTING")


@dataclass(frozen=True, slots=True)
class KnownHealth:
    """unsure: connectors with a task on a worker that does not report."""

    vitals: Vitals = field(default_factory=Vitals)
    unsure: frozenset[str] = frozenset()

    def health_of(self, connector: Connector) -> Health:
        """Return the connector's health, or that it is unknown."""
        if self.vitals.stale or connector.name in self.unsure:
            return Health.UNKNOWN
        try:
            return Health(connector.health)
        except ValueError:
            return Health.UNKNOWN

    def doubt(self, connector: Connector) -> str:
        """Return why its health is unknown, and what it was; "" if it is known."""
        was = connector.health.lower() or "unknown"
        if self.vitals.stale:
            at = f" at {format_clock(self.vitals.as_of_ms)}" if self.vitals.as_of_ms else ""
            return f"It was {was}{at}; nothing newer is known"
        return f"Its worker does not report; it was {was}" if connector.name in self.unsure else ""

    @property
    def column(self) -> Any:
        """Return `health_of` as an expression for a query of connectors."""
        if self.vitals.stale:
            return Value(Health.UNKNOWN.value)
        if self.unsure:
            return Case(When(name__in=self.unsure, then=Value(Health.UNKNOWN.value)), default=F("health"))
        return F("health")


def known_health() -> KnownHealth:
    """Return the current health. It needs no query while all workers report."""
    vitals = look.vitals()
    silent = {worker for worker, _ in vitals.silent}
    if vitals.stale or not silent:
        return KnownHealth(vitals)
    placed = Task.objects.filter(known=True, worker__in=silent, state__in=_AT_WORK)
    return KnownHealth(vitals, frozenset(placed.values_list("connector", flat=True)))


def leader_of(vitals: Vitals, fallback: str) -> str:
    """Return the leader. fallback: the status topic's, for the case without heartbeats."""
    return vitals.leader if vitals.is_known else fallback
