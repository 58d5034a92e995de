"""Silences: for a while nothing is sent about a connector. Its incidents are still opened and shown."""

from collections.abc import Collection

from django.db.models import Q, QuerySet

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
    names = list_silenced(now)
    return rows.none() if "" in names else rows.exclude(Q(connector__in=names))
