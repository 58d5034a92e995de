"""Reads the audit trail: the entries that a user may see."""

from django.db.models import QuerySet

from ringfence.access.principal import Principal, Verb
from ringfence.audit.models import AuditEntry


def entries(who: Principal) -> QuerySet[AuditEntry]:
    """Return the entries that a user may see, newest first.

    The permission `admin` on every connector shows all entries. Other users see those about connectors whose
    configuration they may view, because entries contain configurations.
    """
    rows: QuerySet[AuditEntry] = AuditEntry.objects.order_by("-time_ms", "-id")
    if not who.may_everywhere(Verb.ADMIN):
        rows = rows.exclude(connector="").filter(who.query(Verb.VIEW_CONFIG, "connector"))
    return rows
