"""Reads the audit trail: the entries that a user may see, and in words what a request did."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

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


_DEEDS: Final[Mapping[str, str]] = {
    "pause": "Paused",
    "resume": "Resumed",
    "stop": "Stopped",
    "restart": "Restarted",
    "restart-failed": "Failed tasks restarted",
    "fence": "Fenced",
    "round": "Fencing round started again",
    "level": "Log level changed",
    "rollback": "Configuration rolled back",
    "offsets": "Source offsets changed",
    "reset": "Source offsets reset",
    "delete": "Deleted",
}
"""By the last word of the address."""
_ACTIONS: Final[Mapping[str, str]] = {
    "edit": "Configuration changed",
    "create": "Created",
    "operate": "Operated",
    "offsets": "Source offsets changed",
    "fence": "Fenced",
    "delete": "Deleted",
}


def describe_deed(entry: AuditEntry) -> str:
    """Return what was done, such as `Paused`; without a word for it, the action."""
    address = entry.request.partition(" ")[2]
    words = [word for word in urlsplit(address).path.split("/") if word]
    deed = _DEEDS.get(words[-1], "") if words else ""
    return deed or _ACTIONS.get(entry.action, entry.action.capitalize())
