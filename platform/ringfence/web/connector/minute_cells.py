"""The last hour as a strip of one-minute cells, drawn on the server, with the same information as text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ringfence.connectors.plural_forms import write_count
from ringfence.projection.task_minutes import Hour
from ringfence.web.state_badges import Severity, task_look


@dataclass(frozen=True, slots=True)
class Strip:
    """Lines in a box of `count` x 12, one unit per minute. runs: (tone, path data); marks: path data of ticks."""

    count: int
    runs: Sequence[tuple[str, str]]
    marks: str
    text: str


def _tone(state: str) -> str:
    return str(task_look(state).tone) if state else ""


def strip(hour: Hour) -> Strip:
    """Draw the strip. Neighbouring cells of one tone become one line; a tick is a fencing round or a restart."""
    paths: dict[str, str] = {}
    at = 0
    for tone, run in groupby(map(_tone, hour.states)):
        length = len(list(run))
        if tone:
            paths[tone] = paths.get(tone, "") + f"M{at} 6h{length}"
        at += length
    ticks = (at for at, marks in enumerate(zip(hour.fences, hour.restarts, strict=True)) if any(marks))
    marks = "".join(f"M{at}.5 0v12" for at in ticks)
    return Strip(len(hour.states), sorted(paths.items()), marks, _text(hour))


_WORDS = {
    Severity.OK: "running",
    Severity.BAD: "failed",
    Severity.MOTION: "starting",
    Severity.REST: "at rest",
    Severity.WARN: "retrying",
    Severity.UNKNOWN: "in an unknown state",
}


def _text(hour: Hour) -> str:
    tones = Counter(map(_tone, hour.states))
    parts = [f"{word} in {tones[tone]}" for tone, word in _WORDS.items() if tones[tone]]
    text = f"Last {write_count(len(hour.states), 'minute')}: " + (", ".join(parts) if parts else "nothing is known")
    for count, word in ((sum(hour.fences), "fencing round"), (sum(hour.restarts), "restart")):
        if count:
            text += f"; {write_count(count, word)}"
    return text
