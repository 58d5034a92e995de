"""The last hour as a strip of one-minute cells, drawn on the server; the same in words for those who do not see it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ringfence.mirror.minutes import Cell
from ringfence.web.states import Tone, task_look


@dataclass(frozen=True, slots=True)
class Strip:
    """Lines in a box of `count` x 12, one unit a minute. `runs`: (tone, path data); `marks`: path data of ticks."""

    count: int
    runs: Sequence[tuple[str, str]]
    marks: str
    text: str


def _tone(state: str) -> str:
    return str(task_look(state).tone) if state else ""


def strip(cells: Sequence[Cell]) -> Strip:
    """Neighbours of one tone are one line; a tick is a fencing round or a restart."""
    paths: dict[str, str] = {}
    at = 0
    for tone, run in groupby(_tone(cell.state) for cell in cells):
        length = len(list(run))
        if tone:
            paths[tone] = paths.get(tone, "") + f"M{at} 6h{length}"
        at += length
    marks = "".join(f"M{at}.5 0v12" for at, cell in enumerate(cells) if cell.fences or cell.restarts)
    return Strip(len(cells), sorted(paths.items()), marks, _text(cells))


_WORDS = {
    Tone.OK: "running",
    Tone.BAD: "failed",
    Tone.MOTION: "starting",
    Tone.REST: "at rest",
    Tone.WARN: "in trouble",
    Tone.UNKNOWN: "in an unknown state",
}


def _text(cells: Sequence[Cell]) -> str:
    tones = Counter(_tone(cell.state) for cell in cells if cell.state)
    parts = [f"{word} in {tones[tone]}" for tone, word in _WORDS.items() if tones[tone]]
    told = f"Last {len(cells)} minutes: " + (", ".join(parts) if parts else "nothing is known")
    for count, word in (
        (sum(cell.fences for cell in cells), "fencing round"),
        (sum(cell.restarts for cell in cells), "restart"),
    ):
        if count:
            told += f"; {count} {word}{'s' if count > 1 else ''}"
    return told
