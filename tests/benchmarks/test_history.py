"""What has become slower since the last run: told, unless rounds of the same code differ as much."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import history
from benchmarks.cases import BATCHES, PLAIN, Case
from benchmarks.history import Entry
from benchmarks.numbers import Numbers

NUMBERS = Numbers(100_000, 2.0, 1.0, 0, 0, 0, 0)


def entry(name: str, values: Sequence[float]) -> Entry:
    return Entry("abc", "2 x86_64, Python 3.11", "2026-11-29", {name: values})


def test_ratios_are_to_the_yardstick_of_the_same_round() -> None:
    measured = {
        Case(BATCHES, "poll"): [replace(NUMBERS, records_s=400_000, cpu_s_per_million=1.0), NUMBERS],
        Case(PLAIN, "poll"): [NUMBERS, replace(NUMBERS, records_s=50_000, cpu_s_per_million=4.0)],
        Case(BATCHES, "interval"): [NUMBERS, NUMBERS],
    }
    assert history.ratios(measured) == {
        "poll batches records_s": [4.0, 2.0],
        "poll batches cpu_s_per_million": [0.5, 0.5],
    }


@pytest.mark.parametrize(
    ("name", "before", "now", "told"),
    [
        ("poll batches records_s", [3.0, 3.4], [2.8, 2.9], True),
        ("poll batches records_s", [3.0, 3.4], [2.8, 3.1], False),
        ("poll batches records_s", [3.0, 3.4], [3.6, 3.8], False),
        ("poll batches cpu_s_per_million", [0.5, 0.6], [0.7, 0.8], True),
        ("poll batches cpu_s_per_million", [0.5, 0.6], [0.55, 0.8], False),
        ("poll batches cpu_s_per_million", [0.5, 0.6], [0.3, 0.4], False),
    ],
)
def test_slower_is_what_no_round_has_reached(
    name: str, before: Sequence[float], now: Sequence[float], told: bool
) -> None:
    assert bool(history.slower(entry(name, before), entry(name, now))) is told


def test_entries_are_kept_by_machine(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first, other = entry("a", [1.0]), replace(entry("a", [2.0]), machine="64 aarch64, Python 3.13")
    for each in (first, other):
        history.append(each, path)
    assert history.newest(history.read(path), first.machine) == first
    assert history.newest(history.read(path), "another") is None
