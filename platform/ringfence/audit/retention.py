"""Retention of data that only the database has: versions, snapshots, the audit trail, sessions.

One worker, the one with the projection, deletes a bounded number of rows every few minutes.
"""

from importlib import import_module

from django.conf import settings
from django.db.models import QuerySet

from ringfence.access import sessions
from ringfence.audit.models import prune as prune_audit
from ringfence.history.models import ConfigVersion, DeletedConnector, OffsetSnapshot
from ringfence.history.retention_settings import limit_of
from ringfence.projection.models import Connector

_DAY_MS = 24 * 3600 * 1000
_AT_ONCE = 2000


def delete_expired(now_ms: int) -> int:
    """Delete everything beyond its retention. Returns the number of rows."""
    _note_deletions(now_ms)
    count = _sweep_versions(limit_of("RINGFENCE_KEEP_VERSIONS"))
    if days := limit_of("RINGFENCE_KEEP_DELETED_DAYS"):
        count += _sweep_deleted(now_ms - days * _DAY_MS)
    if days := limit_of("RINGFENCE_KEEP_AUDIT_DAYS"):
        count += prune_audit(now_ms - days * _DAY_MS, _AT_ONCE)
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
    return count + sessions.prune() + sessions.prune_used_tokens()


def delete_expired_on_signal(now_ms: int, **_: object) -> None:
    """Run the sweep. The receiver of `housekeeping_due`."""
    delete_expired(now_ms)


def _note_deletions(now_ms: int) -> None:
    """Note deleted connectors: they count as deleted from the first sweep that does not find them."""
    there = Connector.objects.filter(known=True).values("name")
    DeletedConnector.objects.filter(connector__in=there).delete()
    noted_names = DeletedConnector.objects.values("connector")
    for model in (ConfigVersion, OffsetSnapshot):
        names = (
            model.objects.exclude(connector__in=there)
            .exclude(connector__in=noted_names)
            .values_list("connector", flat=True)
        )
        new = [DeletedConnector(connector=name, time_ms=now_ms) for name in names.distinct()[:_AT_ONCE]]
        DeletedConnector.objects.bulk_create(new, ignore_conflicts=True)


def _sweep_versions(keep: int) -> int:
    """Delete all but the newest `keep` versions of each connector. Numbers increase by one, so the newest shows which
    are old.
    """
    if not keep:
        return 0
    from django.db.models import F, Max

    newest = ConfigVersion.objects.values("connector").annotate(newest=Max("number")).filter(newest__gt=keep)
    count = 0
    for row in newest.order_by(F("newest").desc())[:100]:
        old = ConfigVersion.objects.filter(connector=row["connector"], number__lte=row["newest"] - keep)
        count += _delete(old)
    return count


def _sweep_deleted(before_ms: int) -> int:
    count = 0
    for name in list(DeletedConnector.objects.filter(time_ms__lt=before_ms).values_list("connector", flat=True)[:100]):
        count += _delete(ConfigVersion.objects.filter(connector=name))
        count += _delete(OffsetSnapshot.objects.filter(connector=name))
        left = ConfigVersion.objects.filter(connector=name) or OffsetSnapshot.objects.filter(connector=name)
        if not left:
            DeletedConnector.objects.filter(connector=name).delete()
    return count


def _delete(rows: QuerySet[ConfigVersion] | QuerySet[OffsetSnapshot]) -> int:
    keys = list(rows.order_by("pk").values_list("pk", flat=True)[:_AT_ONCE])
    return rows.model.objects.filter(pk__in=keys).delete()[0] if keys else 0
