"""Stuck operations: rounds, tasks, connectors and requests that wait too long, each with its age."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from django.db.models import Q

from ringfence.access.principal import Principal, Verb
from ringfence.audit.models import AuditEntry
from ringfence.console.waiting_commands import list_queued_commands
from ringfence.dispatch import COMMAND_TIMEOUT, Refusal
from ringfence.http.section_links import FAILURES, SIZES, TROUBLES, Reference
from ringfence.projection.health import Health
from ringfence.projection.health_reasons import describe_wait
from ringfence.projection.models import Connector, GenerationRow, Task
from ringfence.projection.slots import count_slots

ROUND_MS = 15_000
MOTION_MS = 60_000
ANSWER_MS = 15_000
LOOKED_BACK_MS = 86_400_000
MOST = 200
_MOVING = (Health.STARTING, Health.STOPPING, Health.PAUSING, Health.RESTARTING)


@dataclass(frozen=True, slots=True)
class StuckOperation:
    """An operation that waits. why: what it waits for, if known; ways: address and label of each remedy; more: the
    section of the documentation about it.
    """

    what: str
    connector: str
    since_ms: int
    why: str
    ways: list[tuple[str, str]] = field(default_factory=list)
    at: str = ""
    more: Reference = TROUBLES


def find_stuck(who: Principal, now_ms: int | None = None) -> tuple[list[StuckOperation], str]:
    """Return the operations of visible connectors, oldest first, and why some could not be read, "" if all were."""
    now = int(time.time() * 1000) if now_ms is None else now_ms
    operations = [*_rounds(who, now), *_connectors(who, now), *_tasks(who, now), *_find_unanswered(who, now)]
    trouble = ""
    if who.may_everywhere(Verb.ADMIN):
        try:
            operations += _waiting(now)
        except Refusal as error:
            trouble = error.message
    return sorted(operations, key=lambda one: one.since_ms)[:MOST], trouble


def _path(name: str, rest: str) -> str:
    return f"/ui/connectors/{quote(name, safe='')}/{rest}"


def _rounds(who: Principal, now: int) -> Iterator[StuckOperation]:
    fencing = Connector.objects.filter(who.query(), known=True, fencing=True).values_list("name", flat=True)
    rows = GenerationRow.objects.filter(connector__in=fencing).order_by("connector", "generation")
    newest = {row.connector: row for row in rows}
    for name, row in newest.items():
        if row.committed_ms and now - row.committed_ms > ROUND_MS:
            why = row.message or {"pending": "no leader has started it: is there a leader?"}.get(row.stage, row.stage)
            ways = [(_path(name, "round"), "Try again now"), (_path(name, "fence"), "Fence again")]
            yield StuckOperation(
                f"Fencing round of generation {row.generation}", name, row.committed_ms, why, ways, more=FAILURES
            )


def _connectors(who: Principal, now: int) -> Iterator[StuckOperation]:
    moving = Connector.objects.filter(who.query(), known=True, fencing=False)
    late = moving.filter(Q(stale=True) | Q(health__in=_MOVING), since_ms__gt=0, since_ms__lt=now - MOTION_MS)
    for row in late.order_by("since_ms")[:MOST]:
        why = (
            "its tasks are not created yet: the plugin has not answered"
            if row.stale
            else "its tasks do not run yet: the connector's page says what they wait for"
        )
        ways = [(_path(row.name, "tasks"), "See its tasks")]
        yield StuckOperation(f"Connector is {row.health.lower()}", row.name, row.since_ms, row.unreadable or why, ways)


def _tasks(who: Principal, now: int) -> Iterator[StuckOperation]:
    running = Connector.objects.filter(who.query(), known=True, fencing=False).exclude(target="STOPPED")
    slots = count_slots()
    waits = Task.objects.filter(
        known=True, state__in=("UNASSIGNED", "RESTARTING"), connector__in=running.values("name")
    )
    for row in waits.filter(since_ms__gt=0, since_ms__lt=now - MOTION_MS).order_by("since_ms")[:MOST]:
        why = describe_wait(row, slots.waits)
        ways = [(_path(row.connector, "tasks"), "See its tasks")]
        more = TROUBLES if row.why in ("placed", "restarted") else SIZES
        yield StuckOperation(
            f"Task {row.number} is {row.state.lower()}", row.connector, row.since_ms, why, ways, more=more
        )


def _find_unanswered(who: Principal, now: int) -> Iterator[StuckOperation]:
    """Yield writes that were begun but not completed: they are in progress, or their web process died."""
    rows = AuditEntry.objects.filter(completed=False, time_ms__lt=now - ANSWER_MS, time_ms__gt=now - LOOKED_BACK_MS)
    if not who.may_everywhere(Verb.ADMIN):
        rows = rows.exclude(connector="").filter(who.query(Verb.VIEW_CONFIG, "connector"))
    for row in rows.order_by("time_ms")[:MOST]:
        dead = now - row.time_ms > (COMMAND_TIMEOUT + 30) * 1000
        why = (
            "its web process ended before the answer: the outcome is unknown, check it" if dead else "not answered yet"
        )
        yield StuckOperation(row.request, row.connector, row.time_ms, why, [(f"/ui/settings/audit/{row.pk}", "Entry")])


def _waiting(now: int) -> Iterator[StuckOperation]:
    for one in list_queued_commands():
        sent_ms = now - int((COMMAND_TIMEOUT - one.left_s) * 1000)
        left = f"for {one.left_s:.0f} s more" if one.left_s > 0 else "no longer: a leader will drop it"
        who = f" by {one.user}" if one.user else ""
        ways = [(f"/ui/waiting/{one.id}", "Cancel")]
        yield StuckOperation(
            f"Command {one.kind.replace('_', ' ')}{who} waits for a leader",
            one.connector,
            sent_ms,
            f"It is wanted {left}",
            ways,
        )
