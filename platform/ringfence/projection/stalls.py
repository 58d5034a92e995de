"""Connectors that run but move nothing for longer than is usual for them.

What is usual is read from the history by minutes: the longest pause between two minutes with records, of those pauses
in which the connector ran all the time. A connector that has had records in few minutes so far has no usual.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise

from django.db import transaction
from django.db.models import Max

from ringfence.projection.health import Health, refresh
from ringfence.projection.models import Connector, Minute, Task

LEAST_MS = 5 * 60_000
"""A shorter silence is never a stall."""
TIMES = 3
"""As many times the usual pause is a stall."""
LEAST_MINUTES = 10
"""With records in fewer minutes nobody can tell what is usual."""
_TOGETHER = 100
_RUNNING = (Health.HEALTHY, Health.STALLED, Health.DEGRADED)


def usual_pause(active: Sequence[int], disturbed: Collection[int] = ()) -> int:
    """The longest pause in minutes between two of the active minutes (in order); 0 where there are too few.

    Pauses with a disturbed minute in them are left out: the connector was paused, stopped or failed then.
    """
    if len(active) < LEAST_MINUTES:
        return 0
    pauses = [
        later - earlier
        for earlier, later in pairwise(active)
        if not any(earlier <= minute <= later for minute in disturbed)
    ]
    return max(pauses, default=0)


def limit_ms(pause: int) -> int:
    """How long the silence may be where `pause` minutes are usual."""
    return max(LEAST_MS, TIMES * pause * 60_000)


class Stalls:
    """Looks for them now and then. Remembers what is usual for a connector until it moves again."""

    def __init__(self) -> None:
        self._usual: dict[str, tuple[int, int]] = {}
        """By connector: when it moved last, and its usual pause."""

    def look(self, now_ms: int) -> set[str]:
        """Mark those that have stalled by now, and take the mark from those that have not. Returns who changed."""
        moved = _last_moves()
        silent = {name: at for name, at in moved.items() if now_ms - at > LEAST_MS}
        self._usual = {name: known for name, known in self._usual.items() if silent.get(name) == known[0]}
        unknown = sorted(silent.keys() - self._usual.keys())
        for start in range(0, len(unknown), _TOGETHER):
            some = unknown[start : start + _TOGETHER]
            self._usual |= {name: (silent[name], pause) for name, pause in _usual_pauses(some).items()}
        stalled = {name for name, (at, pause) in self._usual.items() if pause and now_ms - at > limit_ms(pause)}
        marked = set(Connector.objects.filter(stalled=True).values_list("name", flat=True))
        with transaction.atomic():
            for name in stalled - marked:
                Connector.objects.filter(name=name).update(stalled=True, usual_pause=self._usual[name][1])
            Connector.objects.filter(name__in=marked - stalled).update(stalled=False)
            if stalled ^ marked:
                refresh(stalled ^ marked)
        return stalled ^ marked


def _last_moves() -> dict[str, int]:
    """When each connector that seems well moved last; its tasks' starts count as moves."""
    rows = Connector.objects.filter(known=True, tasks_failed=0, health__in=_RUNNING)
    moves = dict(rows.values_list("name", "since_ms"))
    tasks = Task.objects.filter(known=True, connector__in=rows.values("name")).values("connector")
    last = tasks.annotate(poll=Max("last_poll_ms"), commit=Max("last_commit_ms"), since=Max("since_ms")).order_by()
    for row in last:
        moves[row["connector"]] = max(moves.get(row["connector"], 0), row["poll"], row["commit"], row["since"])
    return moves


def _usual_pauses(names: Collection[str]) -> dict[str, int]:
    rows = Minute.objects.filter(connector__in=names).order_by("minute")
    active: dict[str, list[int]] = {name: [] for name in names}
    for name, minute in rows.filter(records__gt=0).values_list("connector", "minute").distinct():
        active[name].append(minute)
    disturbed: dict[str, set[int]] = {name: set() for name in names}
    for name, minute in rows.exclude(state__in=("RUNNING", "")).values_list("connector", "minute"):
        disturbed[name].add(minute)
    return {name: usual_pause(active[name], disturbed[name]) for name in names}


def moving(names: Collection[str]) -> None:
    """These have just moved something: none of them stalls any more. Inside the transaction that says so."""
    over = set(Connector.objects.filter(name__in=names, stalled=True).values_list("name", flat=True))
    if over:
        Connector.objects.filter(name__in=over).update(stalled=False)
        refresh(over)
