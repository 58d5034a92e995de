"""Reads the trail: the entries that a user may see, filtered."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from ringfence.access.principal import Principal
from ringfence.access.verbs import Verb
from ringfence.audit.models import AuditEntry

FILTERS = ("user", "connector", "action", "outcome", "address")


def entries(who: Principal, filters: Mapping[str, str] | None = None) -> QuerySet[AuditEntry]:
    """Return entries, newest first. filters: exact values of FILTERS, and `since_ms` and `until_ms` (exclusive). Raises
    ValueError for others.

    The permission `admin` on every connector shows all entries. Other users see those about connectors whose
    configuration they may view, because entries contain configurations.
    """
    parameters = dict(filters or {})
    rows: QuerySet[AuditEntry] = AuditEntry.objects.order_by("-time_ms", "-id")
    if not who.may_everywhere(Verb.ADMIN):
        rows = rows.exclude(connector="").filter(who.query(Verb.VIEW_CONFIG, "connector"))
    bounds: dict[str, Any] = {}
    for key, lookup in (("since_ms", "time_ms__gte"), ("until_ms", "time_ms__lt")):
        if key in parameters:
            bounds[lookup] = int(parameters.pop(key))
    if unknown := sorted(set(parameters) - set(FILTERS)):
        raise ValueError(f"Unknown filter {', '.join(unknown)}: use {', '.join((*FILTERS, 'since_ms', 'until_ms'))}")
    return rows.filter(**parameters, **bounds)
