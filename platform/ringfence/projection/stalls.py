"""Finds connectors that run, but have moved nothing for longer than usual.

The usual pause comes from the history by minutes: it is the longest pause between two minutes with records in which the
connector ran all the time. A connector with records in only a few minutes has none yet.

A task's last failure is remembered until it has recovered. After an automatic restart, a failed task runs for some
seconds until it meets the same record or the same refusal again. Until then nothing is mended: its failure stays
visible, and its connector is not healthy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # so that the pure `alerts.conditions` needs no database
    from ringfence.projection.models import Task

from collections.abc import Collection, Sequence
from itertools import pairwise

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q

from ringfence.plain_queries import among, select
from ringfence.projection.health import Health, refresh
from ringfence.projection.models import Connector, Minute, Task

QUIET_MS: Final = 30_000
"""A task whose source has answered for this long since the failure has recovered, even if there was nothing to read."""


@dataclass(frozen=True, slots=True)
class LastFailure:
    """generation: in which it failed; record: encrypted, "" for none."""

    generation: int = -1
    at_ms: int = 0
    trace: str = ""
    record: str = ""


NONE: Final = LastFailure()


def has_recovered(task: "Task") -> bool:
    """Return whether the failed task has committed records since, or its source has answered for a while."""
    if task.state != "RUNNING" or (task.live_generation, task.live_attempt) != (task.generation, task.attempt):
        return False
    if task.last_commit_ms > task.failed_ms:
        return True
    return not task.retry and task.last_answer_ms - max(task.since_ms, task.failed_ms) >= QUIET_MS


def forget_failure(task: "Task") -> None:
    task.failed_ms, task.failed_trace, task.failed_record = 0, "", ""


LEAST_MS = 5 * 60_000
"""A shorter silence is never a stall."""
TIMES = 3
"""A stall is this many times as long as the usual pause."""
LEAST_MINUTES = 10
"""With records in fewer minutes, there is no usual pause yet."""
_TOGETHER = 100
_RUNNING = (Health.HEALTHY, Health.STALLED, Health.DEGRADED, Health.RETRYING)


def usual_pause(active: Sequence[int], disturbed: Collection[int] = ()) -> int:
    """Return the longest pause in minutes between two active minutes (in order); 0 if there are too few of them.

    It ignores pauses with a disturbed minute, in which the connector was paused, stopped or failed.
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
    """Return how long a connector may move nothing, given its usual pause in minutes."""
    return max(LEAST_MS, TIMES * pause * 60_000)


class Stalls:
    """Looks for stalls regularly. It remembers a connector's usual pause until it moves records again."""

    def __init__(self) -> None:
        self._usual: dict[str, tuple[int, int]] = {}
        """When each connector last moved records, and its usual pause."""

    def look(self, now_ms: int) -> set[str]:
        """Mark stalled connectors, and remove the mark from others. Return those that changed."""
        silent = _last_moves(now_ms - LEAST_MS)
        self._usual = {name: entry for name, entry in self._usual.items() if silent.get(name) == entry[0]}
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


def _last_moves(before_ms: int) -> dict[str, int]:
    """Return when healthy connectors last moved records, of those that did so before this time; a start of a task
    counts, too. The database leaves out the others, which are nearly all.
    """
    recent = Q(last_poll_ms__gte=before_ms) | Q(last_commit_ms__gte=before_ms) | Q(since_ms__gte=before_ms)
    moving = Task.objects.filter(recent, known=True, connector=OuterRef("name"))
    healthy = Connector.objects.filter(known=True, tasks_failed=0, health__in=_RUNNING, since_ms__lt=before_ms)
    rows = healthy.filter(~Exists(moving))
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


def clear_stalled(names: Collection[str]) -> None:
    """Remove the mark from these connectors, which have just moved records. Inside the transaction of their reports."""
    if not names:
        return
    over = {name for (name,) in select(Connector, "name", f"{among('name', names)} AND stalled", *names)}
    if over:
        Connector.objects.filter(name__in=over).update(stalled=False)
        refresh(over)
