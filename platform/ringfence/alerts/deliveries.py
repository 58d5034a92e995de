"""Deliveries: created with their incident, handed to Celery when due, and retried with growing pauses.

Their state is in the database: if Redis loses a message, or the worker dies during a try, the delivery is handed out
again. So a destination may get a message twice, but misses none while it answers. `X-Ringfence-Delivery` identifies
copies.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.db import transaction

from ringfence.alerts.conditions import MessageKind, pause_ms
from ringfence.alerts.models import Delivery, Destination, Incident, now_ms
from ringfence.alerts.senders import Endpoint, NotSent, send

log = logging.getLogger(__name__)

WAITING, UNDER_WAY, SENT, GIVEN_UP = "waiting", "under way", "sent", "given up"
_LOST_MS = 60_000
_HANDED_MS = 30_000
_MOST = 100

Send = Callable[[Endpoint, Mapping[str, Any], int], int]


def begin(destination: Destination, body: Mapping[str, Any], incident: Incident | None, now: int) -> Delivery:
    """Create a delivery that is due now."""
    return Delivery.objects.create(
        incident=incident,
        destination=destination,
        destination_name=destination.name,
        what=str(body["what"]),
        body=json.dumps(dict(body)),
        created_ms=now,
        due_ms=now,
    )


def due(now: int) -> list[int]:
    """Return the deliveries to hand to Celery now, including lost ones. Each is handed out again only after a while."""
    lost = Delivery.objects.filter(state=UNDER_WAY, handed_ms__lte=now - _LOST_MS)
    if lost.exists():  # an update takes SQLite's lock, for which requests wait, also where it changes nothing
        lost.update(state=WAITING)
    waiting = Delivery.objects.filter(state=WAITING, due_ms__lte=now, handed_ms__lte=now - _HANDED_MS).order_by("pk")
    numbers = [one.pk for one in waiting.select_related("incident")[:_MOST] if not _behind(one)]
    if numbers:
        Delivery.objects.filter(pk__in=numbers).update(handed_ms=now)
    return numbers


def _behind(one: Delivery) -> bool:
    """Return whether it must wait: a resolve message follows its incident's other messages."""
    if one.what != MessageKind.RESOLVED:
        return False
    earlier = Delivery.objects.filter(incident=one.incident_id, destination=one.destination_id, pk__lt=one.pk)
    return earlier.filter(state__in=(WAITING, UNDER_WAY)).exists()


def attempt(number: int, sender: Send = send) -> str:
    """Make one try of a due delivery. Returns its new state, "" if it is not due (any more)."""
    now = now_ms()
    with transaction.atomic():
        mine = Delivery.objects.filter(pk=number, state=WAITING, due_ms__lte=now).update(state=UNDER_WAY, handed_ms=now)
    if not mine:
        return ""  # another Celery message about the same delivery came first
    row = Delivery.objects.select_related("destination").get(pk=number)
    to = row.destination
    if to is None or not (to.enabled or row.what == MessageKind.TEST):
        return _end(row, GIVEN_UP, 0, "The destination was deleted or disabled")
    recipients = tuple(each.strip() for each in to.recipients.split(",") if each.strip())
    try:
        status = sender(Endpoint(to.kind, to.url, to.secret, recipients), json.loads(row.body), row.pk)
    except NotSent as error:
        return _record_failure(row, error)
    except Exception as error:  # noqa: BLE001 - the root of a Celery task; its text may contain the address
        # What a sender did not foresee counts as a try, or there would be no end of them.
        return _record_failure(row, NotSent(f"It could not be sent ({type(error).__name__})"))
    return _end(row, SENT, status, "")


def _record_failure(row: Delivery, error: NotSent) -> str:
    log.warning("Delivery %d to %s failed: %s", row.pk, row.destination_name, error.message)
    tries = row.tries + 1
    pause = None if error.final or row.what == MessageKind.TEST else pause_ms(tries)
    if pause is None:
        return _end(row, GIVEN_UP, error.status, error.message)
    values = {"state": WAITING, "tries": tries, "status": error.status, "error": error.message}
    Delivery.objects.filter(pk=row.pk).update(due_ms=now_ms() + pause, handed_ms=0, **values)
    return WAITING


def _end(row: Delivery, state: str, status: int, error: str) -> str:
    values = {"state": state, "tries": row.tries + 1, "status": status, "error": error}
    Delivery.objects.filter(pk=row.pk).update(ended_ms=now_ms(), **values)
    return state
