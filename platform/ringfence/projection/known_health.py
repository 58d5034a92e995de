"""Health as far as it is known: the projection's word, unless what it says is old or its worker is silent.

Pages, API, command line and metrics all ask here. To show the last known state as the present one is wrong when it
matters most.
"""

from dataclasses import dataclass, field
from typing import Any

from django.db.models import Case, F, Value, When

from ringfence.heartbeats.cluster import Vitals, format_clock
from ringfence.heartbeats.look import look
from ringfence.projection.health import Health
from ringfence.projection.models import Connector, Task

_AT_WORK = ("RUNNING", "PAUSED", "RESTARTING")


@dataclass(frozen=True, slots=True)
class KnownHealth:
    """`unsure`: connectors with a task on a worker that does not report."""

    vitals: Vitals = field(default_factory=Vitals)
    unsure: frozenset[str] = frozenset()

    def health_of(self, connector: Connector) -> Health:
        """What may be said about it now."""
        if self.vitals.stale or connector.name in self.unsure:
            return Health.UNKNOWN
        try:
            return Health(connector.health)
        except ValueError:
            return Health.UNKNOWN

    def doubt(self, connector: Connector) -> str:
        """Why its health is unknown and what it was, "" where it is known."""
        was = connector.health.lower() or "unknown"
        if self.vitals.stale:
            at = f" at {format_clock(self.vitals.as_of_ms)}" if self.vitals.as_of_ms else ""
            return f"It was {was}{at}; nothing newer is known"
        return f"Its worker does not report; it was {was}" if connector.name in self.unsure else ""

    @property
    def column(self) -> Any:
        """The same as `health_of`, for a query of connectors."""
        if self.vitals.stale:
            return Value(Health.UNKNOWN.value)
        if self.unsure:
            return Case(When(name__in=self.unsure, then=Value(Health.UNKNOWN.value)), default=F("health"))
        return F("health")


def known_health() -> KnownHealth:
    """As of now: no query of its own while every worker reports."""
    vitals = look.vitals()
    silent = {worker for worker, _ in vitals.silent}
    if vitals.stale or not silent:
        return KnownHealth(vitals)
    placed = Task.objects.filter(known=True, worker__in=silent, state__in=_AT_WORK)
    return KnownHealth(vitals, frozenset(placed.values_list("connector", flat=True)))


def leader_of(vitals: Vitals, told: str) -> str:
    """Who leads. `told`: by the status topic, where nobody writes heartbeats."""
    return vitals.leader if vitals.known else told
