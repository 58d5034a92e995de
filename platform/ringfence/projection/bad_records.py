"""Counts the records of the last hour that a connector skipped or sent to its dead letter queue, for its health."""

from collections.abc import Collection

from django.db import transaction
from django.db.models import Q, Sum

from ringfence.projection.health import refresh
from ringfence.projection.models import Connector, Minute
from ringfence.projection.task_minutes import SHOWN, minute_of

RECENT = Q(recent_skipped__gt=0) | Q(recent_dead_letters__gt=0)
"""Connectors that had some in the last hour."""


def update_counts(now_ms: int, names: Collection[str] = ()) -> set[str]:
    """Update the counts of these connectors, and of those with some in the last hour. Return those that changed."""
    rows = list(Connector.objects.filter(RECENT | Q(name__in=names)))
    if not rows:
        return set()
    first = minute_of(now_ms) - SHOWN + 1
    sums = Minute.objects.filter(connector__in=[row.name for row in rows], minute__gte=first).values("connector")
    totals = sums.order_by().annotate(skips=Sum("skipped"), letters=Sum("dead_letters"))
    counts = {row["connector"]: (row["skips"], row["letters"]) for row in totals}
    changed = set()
    with transaction.atomic():
        for row in rows:
            before = row.recent_skipped, row.recent_dead_letters
            now = counts.get(row.name, (0, 0))
            if now == before:
                continue
            since_ms = 0 if not any(now) else row.bad_since_ms or now_ms
            skips, letters = now
            Connector.objects.filter(name=row.name).update(
                recent_skipped=skips, recent_dead_letters=letters, bad_since_ms=since_ms
            )
            changed.add(row.name)
        if changed:
            refresh(changed)
    return changed
