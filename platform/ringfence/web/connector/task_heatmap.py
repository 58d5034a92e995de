"""The task strip: one row per task, one cell per minute of the last hour, coloured by its worst state, with ticks for
commits, fencing rounds and restarts. It is drawn on the server, and available as text and as a table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString, mark_safe

from ringfence.projection.task_minutes import ITSELF, Cell, Key, join_strips
from ringfence.web.state_badges import Severity, task_look

WIDTH, HEIGHT = 600, 22
_CELL = 10
_TOP, _TALL = 4, 12
MOST_TASKS = 50


@dataclass(frozen=True, slots=True)
class Strip:
    """SVG path data in a box of WIDTH x HEIGHT, and the same as text. task: None for the connector itself."""

    task: int | None
    cells: Sequence[tuple[Severity, str]]
    commits: str
    fences: str
    restarts: str
    summary: str


def strip(task: int | None, cells: Sequence[Cell]) -> Strip:
    """Draw one row."""
    paths: dict[Severity, list[str]] = {}
    begin = 0
    for index in range(1, len(cells) + 1):
        if index == len(cells) or _tone(cells[index]) is not _tone(cells[begin]):
            tone = _tone(cells[begin])
            if tone is not None:
                width = (index - begin) * _CELL - 1
                paths.setdefault(tone, []).append(f"M{begin * _CELL} {_TOP}h{width}v{_TALL}h-{width}z")
            begin = index
    return Strip(
        task=task,
        cells=[(tone, "".join(parts)) for tone, parts in paths.items()],
        commits=_ticks(cells, "commits", f"{_TOP + _TALL + 1}v4"),
        fences=_ticks(cells, "fences", f"0v{HEIGHT}"),
        restarts=_ticks(cells, "restarts", f"0v{_TOP + _TALL}"),
        summary=_summary(cells),
    )


def _tone(cell: Cell) -> Severity | None:
    return task_look(cell.state).tone if cell.state else None


def _ticks(cells: Sequence[Cell], what: str, line: str) -> str:
    return "".join(f"M{index * _CELL + 4.5} {line}" for index, cell in enumerate(cells) if getattr(cell, what))


def _summary(cells: Sequence[Cell]) -> str:
    """Describe the row as text."""
    minutes: dict[str, int] = {}
    for cell in cells:
        if cell.state:
            word = task_look(cell.state).word.lower()
            minutes[word] = minutes.get(word, 0) + 1
    states = ", ".join(f"{count} min {word}" for word, count in sorted(minutes.items(), key=lambda each: -each[1]))
    parts = [states or "nothing is known"]
    for what in ("commits", "aborted", "fences", "restarts"):
        count = sum(getattr(cell, what) for cell in cells)
        if count:
            parts.append(f"{count} {what if count > 1 or what == 'aborted' else what[:-1]}")
    return "; ".join(parts)


def strips(cells_by_task: Mapping[Key, Sequence[Cell]], connector: str, numbers: Iterable[int]) -> list[Strip]:
    """Return the rows of these tasks, and above them the connector's own if it had fencing rounds."""
    rows = [strip(task, cells_by_task[connector, task]) for task in numbers if (connector, task) in cells_by_task]
    itself = cells_by_task.get((connector, ITSELF))
    return [strip(None, itself), *rows] if itself and any(cell.fences for cell in itself) else rows


_ROW = (
    '<tr><th scope="row" class="name-cell" data-label="Minute">{}</th><td data-label="Worst state">{}</td>'
    '<td class="n" data-label="Records">{:,}</td><td class="n" data-label="Commits">{:,}</td>'
    '<td class="n{}" data-label="Aborted">{:,}</td><td class="n" data-label="Restarts">{:,}</td>'
    '<td class="n" data-label="Fencing rounds">{:,}</td></tr>'
)


def table(cells_by_task: Mapping[Key, Sequence[Cell]], connector: str) -> SafeString:
    """Return table rows for the minutes with activity, the newest first, of all tasks together.

    Not a template: rendering sixty rows took half of the page's time, and open pages fetch it again and again. It
    contains only numbers and our own words.
    """
    every = join_strips([cells for (name, _), cells in cells_by_task.items() if name == connector])
    last = every[-1].minute if every else 0
    minutes = [cell for cell in every if cell.records or cell.commits or cell.aborted or cell.fences or cell.restarts]
    rows = []
    for cell in minutes[::-1]:
        when = f"{last - cell.minute} min ago" if cell.minute < last else "this one"
        word = task_look(cell.state).word if cell.state else "&ndash;"
        bad = " bad-text" if cell.aborted else ""
        counts = (cell.records, cell.commits, bad, cell.aborted, cell.restarts, cell.fences)
        rows.append(_ROW.format(when, word, *counts))
    return mark_safe("".join(rows))  # noqa: S308


def rates(cells_by_task: Mapping[Key, Sequence[Cell]], connector: str) -> list[float]:
    """Return the records of each minute, the oldest first; the last minute is still running."""
    tasks = [cells for (name, task), cells in cells_by_task.items() if name == connector and task != ITSELF]
    return [float(cell.records) for cell in join_strips(tasks)]
