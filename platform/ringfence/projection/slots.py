"""How many tasks the workers have room for, and how much of it is taken."""

from dataclasses import dataclass

from django.db.models import Sum

from ringfence.fencing.topics.status import NO_SLOT
from ringfence.projection.models import DrainedWorker, Task, Worker

REMEDY = "Stop a connector that is not needed, add a worker, or give the workers more slots"


@dataclass(frozen=True, slots=True)
class Slots:
    """`used`: by placed tasks, paused ones too. `total`: of workers that take tasks."""

    used: int
    total: int

    @property
    def waits(self) -> str:
        """What a task without a place waits for."""
        return f"Waits for a slot: {self.used} of {self.total} in use"


def count_slots() -> Slots:
    """As of now; three small queries."""
    drained = dict(DrainedWorker.objects.values_list("worker", "incarnation"))
    taking = Worker.objects.exclude(worker__in=drained) if drained else Worker.objects.all()
    placed = Task.objects.filter(known=True).exclude(worker="").exclude(why=NO_SLOT).exclude(state="FAILED")
    return Slots(placed.count(), taking.aggregate(sum=Sum("slots"))["sum"] or 0)


def find_waiting(connectors: list[str]) -> dict[str, str]:
    """Of these connectors, those with a task that waits for a slot: what it waits for."""
    rows = Task.objects.filter(connector__in=connectors, known=True, why=NO_SLOT, state="UNASSIGNED")
    names = set(rows.values_list("connector", flat=True))
    if not names:
        return {}
    waits = count_slots().waits
    return dict.fromkeys(names, waits)
