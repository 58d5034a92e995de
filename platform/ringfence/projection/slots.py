"""Counts the workers' slots for tasks, and those in use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet, Sum

from ringfence.fencing.clock import epoch_ms
from ringfence.fencing.topics.status import NO_SLOT
from ringfence.projection.health import Health
from ringfence.projection.models import DrainedWorker, Task, Worker

_WAITS = Q(why=NO_SLOT, state="UNASSIGNED")
MAY_WAIT = frozenset({Health.STARTING, Health.RESTARTING, Health.RETRYING, Health.DEGRADED, Health.UNHEALTHY})
_DUE_MS = 5_000
"""A restart that is due is placed within a second or two, if there is a free slot."""
REMEDY = "Stop a connector that is not needed, add a worker, or give the workers more slots"


@dataclass(frozen=True, slots=True)
class Slots:
    """used: by placed tasks, including paused ones. total: of workers that take tasks."""

    used: int
    total: int

    @property
    def full(self) -> bool:
        return self.used >= self.total

    @property
    def waits(self) -> str:
        """Return the message for a task without a slot."""
        return f"Waits for a slot: {self.used} of {self.total} in use"


def count_slots() -> Slots:
    """Count the current slots, with three small queries."""
    drained = dict(DrainedWorker.objects.values_list("worker", "incarnation"))
    taking = Worker.objects.exclude(worker__in=drained) if drained else Worker.objects.all()
    return Slots(_find_placed().count(), taking.aggregate(sum=Sum("slots"))["sum"] or 0)


def find_shortage(config: Mapping[str, str]) -> str:
    """Return why not all tasks of this configuration would get a slot now; "" if they would. It is only a hint: the
    others wait, and start by themselves."""
    slots, text = count_slots(), config.get("tasks.max", "1").strip()
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
    count -= count_placed(config.get("name", ""))
    free, usage = max(0, slots.total - slots.used), f"{slots.used} of {slots.total} in use"
    if free >= count:
        return ""
    missing = f"Only {free} free for up to {count} more tasks: {usage}." if free else f"No free slot: {usage}."
    return f"{missing} The other tasks wait."


def count_placed(connector: str) -> int:
    """Return the number of slots that the connector's tasks have."""
    return _find_placed().filter(connector=connector).count()


def _find_placed() -> QuerySet[Task]:
    return Task.objects.filter(known=True).exclude(worker="").exclude(why=NO_SLOT).exclude(state="FAILED")


def find_waiting(connectors: list[str] | QuerySet[Any, Any]) -> dict[str, str]:
    """Return, for those of these connectors (or of a query's) with a task that waits for a slot, the message."""
    rows = Task.objects.filter(connector__in=connectors, known=True).filter(_WAITS | _is_due(epoch_ms()))
    reasons = set(rows.values_list("connector", "why"))
    if not reasons:
        return {}
    slots = count_slots()
    return {name: slots.waits for name, why in reasons if why == NO_SLOT or slots.full}


def waits_for_slot(tasks: Sequence[Task], now_ms: int) -> Slots | None:
    """Return the slots if one of these tasks waits for one: it was never placed, or its automatic restart is due."""
    due = [task for task in tasks if task.state == "FAILED" and 0 < task.next_restart_ms < now_ms - _DUE_MS]
    placeless = any(task.why == NO_SLOT for task in tasks)
    if not (due or placeless):
        return None
    slots = count_slots()
    return slots if placeless or slots.full else None


def _is_due(now_ms: int) -> Q:
    return Q(state="FAILED", next_restart_ms__gt=0, next_restart_ms__lt=now_ms - _DUE_MS)
