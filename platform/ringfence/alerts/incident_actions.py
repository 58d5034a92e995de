"""User actions on incidents: acknowledge one, silence a connector, end a silence. For pages, API and client."""

from collections.abc import Collection, Mapping

from django.db.models import Q, QuerySet

from ringfence.access.principal import Principal, Verb
from ringfence.alerts.deliveries import now_ms
from ringfence.alerts.models import Incident, IncidentNote, Silence
from ringfence.connectors.sdk.names import describe_length


def incidents(who: Principal) -> QuerySet[Incident]:
    """Return the incidents of visible connectors, and those of the cluster for users who may see any connector."""
    if who.may_everywhere(Verb.VIEW):
        return Incident.objects.all()
    return Incident.objects.filter(Q(connector="") | who.query(Verb.VIEW, "connector"))


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


_HOUR_MS = 3_600_000
_LONGEST_WHY = 1000
_LONGEST_NOTE = 4000
_MOST_NOTES = 200
"""Of one incident: its page shows all of them."""
_MOST_SILENCES = 50
"""Of one account, in force at once: all pages and each evaluation read them."""


def may_operate(who: Principal, connector: str) -> bool:
    """Return whether `who` may act on the connector's incidents ("": all connectors, and the cluster)."""
    return who.may(Verb.OPERATE, connector) if connector else who.may_everywhere(Verb.OPERATE)


def acknowledge(one: Incident, who: Principal) -> Mapping[str, object] | None:
    """Acknowledge an incident, so that the badge no longer counts it. Returns the data for the audit trail, None if
    another user was first: only the first acknowledgement counts.
    """
    if one.acknowledged_ms:
        return None
    one.acknowledged_ms, one.acknowledged_by = now_ms(), who.name
    one.save(update_fields=["acknowledged_ms", "acknowledged_by"])
    return {"incident": one.pk, "connector": one.connector, "acknowledged_by": one.acknowledged_by}


def add_note(one: Incident, text: object, who: Principal) -> IncidentNote:
    """Keep what somebody writes about the incident. Raises ValueError for an empty or long text, or for too many."""
    note = text.strip() if isinstance(text, str) else ""
    if not note or len(note) > _LONGEST_NOTE or "\x00" in note:
        raise ValueError(f"Write a note of up to {_LONGEST_NOTE:,} characters. Nothing was kept.")
    if one.notes.count() >= _MOST_NOTES:
        raise ValueError(f"The incident has {_MOST_NOTES} notes, and takes no more. Nothing was kept.")
    return IncidentNote.objects.create(incident=one, time_ms=now_ms(), user=who.name, text=note)


def silence(connector: str, hours: object, why: object, who: Principal) -> Silence:
    """Send nothing about the connector for that long. Raises ValueError for invalid values, and for too many."""
    text = str(hours)
    if isinstance(hours, bool) or not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= LONGEST_HOURS):
        raise ValueError(f"hours must be an integer from 1 to {LONGEST_HOURS}. Nothing was silenced.")
    reason = why.strip() if isinstance(why, str) else ""
    if not reason or len(reason) > _LONGEST_WHY or "\x00" in reason:
        raise ValueError("Give a reason of up to 1,000 characters. Nothing was silenced.")
    if too_long := describe_length(connector):
        raise ValueError(f"There is no connector of that name: {too_long}. Nothing was silenced.")
    now = now_ms()
    if in_force(now).filter(user=who.name).count() >= _MOST_SILENCES:
        raise ValueError(f"{_MOST_SILENCES} silences of yours are in force: end one. Nothing was silenced.")
    return Silence.objects.create(
        connector=connector, until_ms=now + int(text) * _HOUR_MS, created_ms=now, user=who.name, why=reason
    )


def audit_data(one: Silence) -> dict[str, object]:
    """Return the data for the audit trail."""
    return {"connector": one.connector, "until_ms": one.until_ms, "why": one.why}


def end(one: Silence) -> None:
    """End a silence: messages are sent again, including the first ones of incidents that are still open."""
    Silence.objects.filter(pk=one.pk, ended_ms=0).update(ended_ms=now_ms())
