"""The arithmetic of the benchmark, on samples made by hand."""

from pathlib import Path

import pytest

from benchmarks import answers, lines
from benchmarks.cases import BATCHES, CONNECT, SINGLE, Case
from benchmarks.numbers import Numbers, medians, numbers
from benchmarks.report import table, targets
from benchmarks.rest import BenchmarkError
from benchmarks.watch import Observation, Sample


def observation(*samples: tuple[float, int, float]) -> Observation:
    return Observation(created_at=10.0, samples=[Sample(*sample) for sample in samples])


def measured(records_s: float, cpu: float, task: float = 100) -> Numbers:
    return Numbers(records_s, cpu, 0.5, 500, 400, task, 80)


def test_a_rate_is_what_became_visible_after_the_first_step() -> None:
    seen = observation((11, 0, 1.0), (12, 200, 1.5), (13, 600, 2.0), (14, 1000, 2.5), (15, 1000, 3.0))
    result = numbers(seen, 1000, interval=False)
    assert result.records_s == pytest.approx(400)
    assert result.cpu_s_per_million == pytest.approx(1.0 / 800 * 1e6)
    assert result.first_s == 2


def test_with_intervals_the_idle_wait_for_the_last_one_does_not_count() -> None:
    seen = observation((12, 500, 1.0), (13, 1000, 2.0), (14, 1100, 2.1))
    assert numbers(seen, 1100, interval=True).records_s == pytest.approx(500)


def test_commit_markers_are_not_records() -> None:
    seen = observation((12, 110, 1.0), (13, 550, 2.0), (14, 1100, 3.0))
    assert numbers(seen, 1000, interval=False).records_s == pytest.approx(450)


def test_a_part_of_a_run_is_measured_by_itself() -> None:
    samples = (11, 0, 1.0), (12, 100, 9.0), (13, 300, 10.0), (20, 300, 10.5), (21, 500, 11.0), (22, 600, 11.2)
    first = numbers(observation(*samples), 600, interval=False, until=300)
    assert first.records_s == pytest.approx(200)
    assert first.first_s == 2
    second = numbers(observation(*samples), 600, interval=False, since=300)
    assert second.records_s == pytest.approx(100), "the wait before it does not count"
    assert second.cpu_s_per_million == pytest.approx(0.2 / 100 * 1e6)


@pytest.mark.parametrize("interval", [True, False])
def test_a_file_that_is_too_short_is_refused(interval: bool) -> None:
    with pytest.raises(BenchmarkError, match="too"):
        numbers(observation((12, 100, 1.0), *([(13, 200, 2.0)] if interval else [])), 200, interval=interval)


def test_medians_are_of_each_number_by_itself() -> None:
    found = medians([measured(1, 30), measured(3, 10), measured(2, 20)])
    assert (found.records_s, found.cpu_s_per_million) == (2, 20)


def test_the_table_compares_with_connect() -> None:
    results = {
        Case(CONNECT, "interval"): measured(100_000, 5.0),
        Case(BATCHES, "interval"): measured(820_000, 0.5),
        Case(SINGLE, "interval"): measured(300_000, 2.5, task=130),
    }
    assert "| 820,000 | 8.20 |" in table(results, "interval")
    reached = [target.reached for target in targets(results)]
    assert reached == [True, True, True, False, True, False]


def test_lines_are_all_of_one_length_and_all_different(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    lines.write(path, 20_001)
    found = path.read_text().splitlines()
    assert len(set(found)) == 20_001
    assert {len(line) for line in found} == {lines.LINE_BYTES}


def test_the_stages_of_an_answer_are_read_from_its_header() -> None:
    header = "total;dur=12.5, leader.transaction;dur=8, odd, rows;dur=0.1"
    assert answers.parse_stages(header) == {"total": 12.5, "leader.transaction": 8.0, "rows": 0.1}
    assert answers.parse_stages("") == {}
