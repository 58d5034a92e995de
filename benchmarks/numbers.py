"""From samples to numbers. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.processes import MIB
from benchmarks.rest import BenchmarkError
from benchmarks.watch import Observation, Sample


@dataclass(frozen=True, slots=True)
class Numbers:
    """One run, or the medians of several.

    first_s: from the request to create it to the first visible record.
    """

    records_s: float
    cpu_s_per_million: float
    first_s: float
    tree_rss_mib: float
    tree_pss_mib: float
    task_rss_mib: float
    task_pss_mib: float


def numbers(
    observation: Observation, lines: int, *, interval: bool, since: int = 0, until: float = float("inf")
) -> Numbers:
    """From the first visible record to the last; of those that became visible after `since` others, until there were
    `until` of them.

    With `interval` the last step is left out on both sides: it holds the rest of the file, and waits idly until its
    interval is over. Offsets also count one marker a transaction, so they are scaled to `lines`.
    """
    steps = _steps(observation.samples, since, until)
    first, last = steps[0], steps[-2] if interval else steps[-1]
    records = (last.visible - first.visible) * lines / observation.samples[-1].visible
    if records <= 0:
        raise BenchmarkError(f"{lines:,} lines are too few to measure: they were visible in {len(steps)} steps")
    return Numbers(
        records / (last.at - first.at),
        (last.cpu_s - first.cpu_s) / records * 1e6,
        first.at - observation.created_at,
        observation.tree.rss / MIB,
        observation.tree.pss / MIB,
        observation.task.rss / MIB,
        observation.task.pss / MIB,
    )


def _steps(samples: Sequence[Sample], since: int, until: float) -> list[Sample]:
    """The samples at which more was visible than before."""
    steps: list[Sample] = []
    visible = since
    for sample in samples:
        if visible < sample.visible <= until:
            visible = sample.visible
            steps.append(sample)
    if len(steps) < 2:
        raise BenchmarkError("everything became visible at once: the file is too short to measure")
    return steps


def medians(runs: Sequence[Numbers]) -> Numbers:
    """Of each number by itself."""
    each = [asdict(run) for run in runs]
    return Numbers(**{name: median(one[name] for one in each) for name in each[0]})


def yes_or_no(reached: bool) -> str:
    """What a table says of a target."""
    return "yes" if reached else "no"
