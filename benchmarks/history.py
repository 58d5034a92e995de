"""What runs have measured, kept by commit and machine, and what has become slower since. Pure, except for the file.

Figures of different hours, or machines, cannot be compared: what is kept of a case is its ratio to a yardstick that was
measured in the same run, for each round. Two commits differ if all rounds of one lie beyond all rounds of the other:
less than that, rounds of the same code differ, too.
"""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.cases import PLAIN, Case
from benchmarks.numbers import Numbers

FILE = Path(__file__).parent / "results" / "history.jsonl"
FASTER_IS_MORE = {"records_s"}
MEASURES = ("records_s", "cpu_s_per_million")


@dataclass(frozen=True, slots=True)
class Entry:
    """One run. ratios: by what was measured, one value for each round."""

    commit: str
    machine: str
    day: str
    ratios: Mapping[str, Sequence[float]]


def ratios(measured: Mapping[Case, Sequence[Numbers]], yardstick: str = PLAIN) -> dict[str, list[float]]:
    """Return each case's ratios to the yardstick's case with the same boundary; nothing without a yardstick."""
    by_name: dict[str, list[float]] = {}
    for case, rounds in measured.items():
        beside = measured.get(Case(yardstick, case.boundary))
        if case.kind == yardstick or beside is None:
            continue
        for name in MEASURES:
            pairs = zip(rounds, beside, strict=True)
            values = [round(getattr(ours, name) / getattr(theirs, name), 3) for ours, theirs in pairs]
            by_name[f"{case.boundary} {case.kind} {name}"] = values
    return by_name


def slower(before: Entry, now: Entry) -> list[str]:
    """Return a line for each measure whose rounds are all worse than those of `before`."""
    lines = []
    for name in sorted(before.ratios.keys() & now.ratios.keys()):
        old, new = before.ratios[name], now.ratios[name]
        more_is_better = name.rpartition(" ")[2] in FASTER_IS_MORE
        worse = max(new) < min(old) if more_is_better else min(new) > max(old)
        if worse:
            lines.append(f"{name}: {median(new):.2f} in place of {median(old):.2f} ({before.commit})")
    return lines


def newest(entries: Iterable[Entry], machine: str) -> Entry | None:
    """Return the last entry of this kind of machine."""
    return next((each for each in reversed(list(entries)) if each.machine == machine), None)


def read(path: Path = FILE) -> list[Entry]:
    return [Entry(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def append(entry: Entry, path: Path = FILE) -> None:
    with path.open("a") as file:
        file.write(json.dumps(asdict(entry)) + "\n")


def kind_of_machine() -> str:
    """Return what figures depend on the most: processors, architecture, interpreter."""
    return f"{os.cpu_count()} {platform.machine()}, Python {'.'.join(platform.python_version_tuple()[:2])}"


def commit() -> str:
    """Return the commit of this checkout, with a + behind it if anything is not committed; "" without git."""
    command = ["git", "-C", str(FILE.parent), "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
