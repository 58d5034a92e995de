"""Silences: for a while nothing is sent about a connector. Its incidents are still opened and shown."""

from collections.abc import Collection

from django.db.models import QuerySet

from ringfence.alerts.models import Incident, Silence

LONGEST_HOURS = 7 * 24


def in_force(now: int) -> QuerySet[Silence]:
    """Return the active silences."""
    return Silence.objects.filter(until_ms__gt=now, ended_ms=0)


def list_silenced(now: int) -> frozenset[str]:
    """Return the silenced connectors; "" stands for all connectors and the cluster."""
    return frozenset(in_force(now).values_list("connector", flat=True))


def covers(names: Collection[str], connector: str) -> bool:
    """Return whether messages about this connector ("": the cluster) are silenced."""
    return "" in names or connector in names


def filter_unsilenced(incidents: QuerySet[Incident], now: int) -> QuerySet[Incident]:
    """Return the open incidents that are neither acknowledged nor silenced, which the badge counts."""
    rows = incidents.filter(resolved_ms=0, acknowledged_ms=0)
    silenced = in_force(now)
    if silenced.filter(connector="").exists():
        return rows.none()
    return rows.exclude(connector__in=silenced.values("connector"))  # names as parameters would have a limit
