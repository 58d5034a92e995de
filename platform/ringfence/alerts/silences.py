"""Silences: for a while nothing is sent about a connector. Its incidents are open all the same, and shown."""

from collections.abc import Collection

from django.db.models import Q, QuerySet

from ringfence.alerts.models import Incident, Silence

LONGEST_HOURS = 7 * 24


def in_force(now: int) -> QuerySet[Silence]:
    """Those that hold now."""
    return Silence.objects.filter(until_ms__gt=now, ended_ms=0)


def list_silenced(now: int) -> frozenset[str]:
    """The connectors that are silenced; "" stands for all of them and for the cluster itself."""
    return frozenset(in_force(now).values_list("connector", flat=True))


def covers(names: Collection[str], connector: str) -> bool:
    """Whether nothing is to be sent about this connector ("": the cluster)."""
    return "" in names or connector in names


def loud(incidents: QuerySet[Incident], now: int) -> QuerySet[Incident]:
    """The open ones that nobody has acknowledged or silenced: those that the badge counts."""
    found = incidents.filter(resolved_ms=0, acknowledged_ms=0)
    names = list_silenced(now)
    return found.none() if "" in names else found.exclude(Q(connector__in=names))
