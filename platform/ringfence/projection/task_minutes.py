"""The work of each task in each minute, for strips, curves and "longer than usual".

A row is written only for a minute in which something happened; `strips` fills the minutes between. The rows of a
connector itself (its state, its fencing rounds) have task ITSELF; those of connector EVERYTHING hold the sums of all
tasks of all connectors, so that a curve of the whole cluster need not add them up.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ringfence.plain_queries import among, read, upsert
from ringfence.projection.health import RETRYING
from ringfence.projection.models import Connector, Minute, Task

ITSELF = -1
EVERYTHING = ""
KEPT = 26 * 60
"""How many minutes are kept: slightly more than a day, so that a daily event appears twice."""
MOST_ROWS = 500_000
"""With more rows than this the oldest minutes go earlier, but never those of the last SHOWN + 1."""
SHOWN = 60

COUNTS = ("records", "commits", "aborted", "errors", "skipped", "dead_letters", "fences", "restarts", "failed")
_COMMITTED = ("records", "skipped", "dead_letters")
WORST_FIRST = ("FAILED", RETRYING, "RESTARTING", "UNASSIGNED", "PAUSED", "STOPPED", "RUNNING", "")
UNKNOWN = "UNKNOWN"
"""Stands for an unknown state if only the worst is reported."""
RANK = {state: rank for rank, state in enumerate(WORST_FIRST)}

Key = tuple[str, int]
"""(connector, task): task ITSELF for the connector."""
States = dict[Key, tuple[str, int]]
"""The state of each existing connector and task, and since when."""


def worst(states: Iterable[str]) -> str:
    """Return the most severe state; an unknown one is the worst. "" for none."""
    return min(states, key=lambda state: RANK.get(state, -1), default="")


def shown_state(state: str, refused: object) -> str:
    """Return RETRYING in place of RUNNING if its source or Kafka refuses: `refused` is true, or not empty."""
    return RETRYING if refused and state == "RUNNING" else state


def state_of(state: str, since_ms: int, retry: str) -> tuple[str, int]:
    """Return a task's `shown_state` and since when. All three are its row's."""
    state_now = shown_state(state, retry)
    return state_now, int(json.loads(retry)["since_ms"]) if state_now != state else since_ms


def minute_of(time_ms: int) -> int:
    """Return the minute, counted since the epoch."""
    return time_ms // 60_000


def _before(state: str, since_ms: int, time_ms: int) -> str:
    """Return the state in which the minute of `time_ms` began, if this state shows it; else "" for unknown."""
    return state if since_ms and minute_of(since_ms) < minute_of(time_ms) else ""


@dataclass(slots=True)
class _Gain:
    """The increment of a row. began: the state in which the minute began, if this is its first increment."""

    began: str
    state: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))


class Minutes:
    """The increments of one batch of records, written once, inside the batch's transaction."""

    def __init__(self) -> None:
        self._gains: dict[tuple[str, int, int], _Gain] = {}
        self.bad: set[str] = set()
        """Connectors that skipped records or wrote dead letters."""

    def _gain(self, key: Key, time_ms: int, began: str, state: str) -> dict[str, int]:
        gain = self._gains.setdefault((*key, minute_of(time_ms)), _Gain(began, state))
        gain.state = worst((gain.state, state))
        return gain.counts

    def record_report(self, task: Task, time_ms: int, gained: Mapping[str, int]) -> None:
        """Add a progress report, which only a running task sends. gained: transactions, aborted, errors."""
        newest, since_ms = state_of(task.state, task.since_ms, task.retry)
        # The row may have a later state than the report's: topics are read in parallel.
        state = newest if newest in ("PAUSED", RETRYING) and since_ms <= time_ms else "RUNNING"
        own = self._gain((task.connector, task.number), time_ms, _before(state, since_ms, time_ms), state)
        every = self._gain((EVERYTHING, ITSELF), time_ms, "", "")
        for counts in (own, every):
            counts["commits"] += gained["transactions"]
            counts["aborted"] += gained["aborted"]
            counts["errors"] += gained["errors"]

    def record_commits(self, key: Key, time_ms: int, gained: Mapping[str, int], state: str, since_ms: int) -> None:
        """Add what was committed: records, skipped, dead_letters. state: the task's, since `since_ms`."""
        if gained.get("skipped") or gained.get("dead_letters"):
            self.bad.add(key[0])
        if not any(gained.get(name) for name in _COMMITTED):
            return
        own = self._gain(key, time_ms, _before(state, since_ms, time_ms), "RUNNING")
        every = self._gain((EVERYTHING, ITSELF), time_ms, "", "")
        for counts in (own, every):
            for name in _COMMITTED:
                counts[name] += gained.get(name, 0)

    def record_change(self, key: Key, before: str, now: str, time_ms: int, *, again: bool = False) -> None:
        """Add a change of state. before: "" for none; again: it is another attempt of the same generation."""
        if before == now and not again:
            return
        counts = self._gain(key, time_ms, before, worst((before, now)) if before else now)
        gain = self._gains[*key, minute_of(time_ms)]
        gain.began = gain.began or before
        counts["restarts"] += again
        counts["failed"] += now == "FAILED" != before

    def record_fence(self, connector: str, time_ms: int, state: str, since_ms: int) -> None:
        """Add a finished fencing round. state: the connector's, since `since_ms`."""
        self._gain((connector, ITSELF), time_ms, _before(state, since_ms, time_ms), state)["fences"] += 1

    def write(self) -> None:
        """Add to the rows, with two queries for up to a hundred of them."""
        if not self._gains:
            return
        connectors, tasks, minutes = map(set, zip(*self._gains, strict=True))
        condition = f"{among('connector', connectors)} AND {among('task', tasks)} AND {among('minute', minutes)}"
        stored = read(Minute, condition, *connectors, *tasks, *minutes)
        rows = {(row.connector, row.task, row.minute): row for row in stored}
        for key, gain in self._gains.items():
            row = rows.get(key)
            if row is None:
                row = rows[key] = Minute(connector=key[0], task=key[1], minute=key[2], began=gain.began)
            row.state = worst((row.state, gain.state))
            for name, count in gain.counts.items():
                setattr(row, name, getattr(row, name) + count)
        upsert([rows[key] for key in self._gains], ("state", *COUNTS), ("connector", "minute", "task"))


def prune(now_ms: int) -> None:
    """Delete minutes that are too old, and surplus ones."""
    minute = minute_of(now_ms)
    Minute.objects.filter(minute__lt=minute - KEPT).delete()
    if Minute.objects.count() > MOST_ROWS:
        newest = Minute.objects.order_by("-minute").values_list("minute", flat=True)
        Minute.objects.filter(minute__lte=min(newest[MOST_ROWS], minute - SHOWN - 1)).delete()


class Cell(NamedTuple):
    """A minute of a strip. state: the worst in it, "" if there was no task, or if it is unknown."""

    minute: int
    state: str = ""
    records: int = 0
    commits: int = 0
    aborted: int = 0
    errors: int = 0
    skipped: int = 0
    dead_letters: int = 0
    fences: int = 0
    restarts: int = 0
    failed: int = 0


def strips(names: Iterable[str], now_ms: int, count: int = SHOWN, now: States | None = None) -> dict[Key, list[Cell]]:
    """The last `count` minutes, the oldest first, of these connectors, and of each task that they have or had then.

    Three queries for any number of names, or one where the states of now are at hand. The running minute is the last
    cell.
    """
    names = list(names)
    last = minute_of(now_ms)
    rows: dict[Key, dict[int, tuple[str, Cell]]] = {}
    query = Minute.objects.filter(connector__in=names, minute__gt=last - count, minute__lte=last)
    # Tuples, not objects: an open page reads some hundred of them repeatedly.
    for name, task, began, *cell in query.values_list("connector", "task", "began", "minute", "state", *COUNTS):
        rows.setdefault((name, task), {})[cell[0]] = began, Cell._make(cell)
    now, minutes = _now(names) if now is None else now, range(last - count + 1, last + 1)
    return {key: _fill(rows.get(key, {}), minutes, now.get(key)) for key in sorted(rows.keys() | now.keys())}


def _now(names: Sequence[str]) -> States:
    now: States = {}
    for name, state, since in Connector.objects.filter(name__in=names).values_list("name", "state", "since_ms"):
        now[name, ITSELF] = state, since
    tasks = Task.objects.filter(connector__in=names, known=True)
    for name, number, state, since, retry in tasks.values_list("connector", "number", "state", "since_ms", "retry"):
        now[name, number] = state_of(state, since, retry)
    return now


def _fill(rows: Mapping[int, tuple[str, Cell]], minutes: range, now: tuple[str, int] | None) -> list[Cell]:
    """Fill from the newest to the oldest: a minute without a row has the state in which the next row's minute began."""
    cells: list[Cell] = []
    state, since_ms = now or ("", 0)
    for minute in reversed(minutes):
        row = rows.get(minute)
        if row is not None:
            state, cell = row
            cells.append(cell)
        else:
            # Without a row, nothing is known about the time before the current state.
            cells.append(Cell(minute, state if rows or minute >= minute_of(since_ms) else ""))
    return cells[::-1]


def join_strips(strips: Sequence[Sequence[Cell]]) -> list[Cell]:
    """Combine strips of the same minutes: the worst state, and sums. [] for none."""
    joint = []
    for cells in zip(*strips, strict=True):
        minutes, states, *counts = zip(*cells, strict=True)
        joint.append(Cell(minutes[0], worst(states), *map(sum, counts)))
    return joint


@dataclass(slots=True)
class Hour:
    """The minutes of a connector with its tasks: worst states, finished rounds, restarted attempts."""

    states: list[str]
    fences: list[int]
    restarts: list[int]


def hours(names: Iterable[str], now_ms: int, count: int = SHOWN) -> dict[str, Hour]:
    """Return the combined strips of each connector, without other numbers, for long lists. Three queries."""
    names = list(names)
    last = minute_of(now_ms)
    first, blank = last - count + 1, len(WORST_FIRST) - 1
    by_name = {name: Hour([], [0] * count, [0] * count) for name in names}
    ranks = {name: [blank] * count for name in names}
    # RUNNING is the least severe state: it is a minute's worst only if the whole minute was like that. Such a minute
    # looks the same without its row, so most rows need not be read.
    rows = Minute.objects.filter(connector__in=names, minute__gte=first, minute__lte=last)
    rows = rows.exclude(state="RUNNING", began="RUNNING", fences=0, restarts=0)
    changes: dict[Key, list[tuple[int, str, str]]] = {}
    columns = ("connector", "task", "minute", "state", "began", "fences", "restarts")
    for name, task, minute, state, began, fences, restarts in rows.order_by("-minute").values_list(*columns):
        changes.setdefault((name, task), []).append((minute - first, state, began))
        by_name[name].fences[minute - first] += fences
        by_name[name].restarts[minute - first] += restarts
    now = _now(names)
    for key in changes.keys() | now.keys():
        state, since_ms = now.get(key, ("", 0))
        filled: list[int] = []
        before = count
        for at, worst_state, began in changes.get(key, ()):
            filled += [RANK.get(state, -1)] * (before - at - 1) + [RANK.get(worst_state, -1)]
            state, before = began, at
        unknown = 0 if key in changes else min(before, max(0, minute_of(since_ms) - first))
        filled += [RANK.get(state, -1)] * (before - unknown) + [blank] * unknown
        ranks[key[0]] = list(map(min, ranks[key[0]], reversed(filled)))
    for name, worst_ranks in ranks.items():
        by_name[name].states = [WORST_FIRST[rank] if rank >= 0 else UNKNOWN for rank in worst_ranks]
    return by_name
