"""Reads the work of tasks by minute as strips of cells, for pages: the worst state of each minute, and its numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ringfence.projection.models import Connector, Minute, Task
from ringfence.projection.task_minutes import (
    COUNTS,
    ITSELF,
    RANK,
    SHOWN,
    UNKNOWN,
    WORST_FIRST,
    Key,
    States,
    minute_of,
    state_of,
    worst,
)


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
