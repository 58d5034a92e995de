"""The initial snapshot on several tasks under the real kernel, killed while writers change what it reads."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import versions
from tests.postgres.snapshots import SnapshotStand
from tests.support.broker import Broker
from tests.support.postgres import Postgres
from tests.support.snapshot_tables import is_within_a_range
from tests.support.waiting import eventually

Make = Callable[..., SnapshotStand]


@pytest.fixture
def snapshot(server: Postgres, broker: Broker, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Make]:
    """`snapshot(tasks, **settings)` makes a connector whose tasks are not started."""
    made: list[SnapshotStand] = []

    def make(tasks: int, **settings: str) -> SnapshotStand:
        made.append(SnapshotStand(server, broker.bootstrap, unique("snap"), tmp_path, tasks, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def is_taken_up_again(stand: SnapshotStand) -> bool:
    """Whether an attempt has read on in a range that another one began."""
    return any(len(one.segments) > 1 for one in stand.state().ranges.values())


def strikes_a_range(stand: SnapshotStand, task: int, choice: random.Random) -> bool:
    """Kill the task while it reads a range, and place it again. Whether some range is taken up again by now."""
    eventually(lambda: is_within_a_range(stand, task), 90, stand.logs, pause=0.1)
    time.sleep(choice.uniform(0.0, 0.1))  # where the kill strikes is left to chance
    stand.strike(task)
    stand.begin(task)
    eventually(lambda: is_taken_up_again(stand) or not is_within_a_range(stand, task), 90, stand.logs, pause=0.05)
    return is_taken_up_again(stand)


def run_with_kills(stand: SnapshotStand, seed: int, kills: int, rows: int) -> list[tuple[Any, ...]]:
    """Kill tasks in the snapshot, and the streaming one behind it. What is wrong in the end."""
    choice = random.Random(seed)
    versions.create(stand, rows)
    stand.hooks = [*stand.hooks, "slow"]
    stand.configure()
    workload = versions.Workload(stand, seed, rows=rows, moves=0.1)
    try:
        for number in range(stand.tasks):
            stand.begin(number)
        for kill in range(kills):
            while not strikes_a_range(stand, (kill + 1) % stand.tasks, choice):
                pass  # the range was done by then
        eventually(lambda: stand.state().complete, 90, stand.logs, pause=0.2)
        stand.strike(0)  # while it streams what the rows contain, or just before
        stand.begin(0)
    finally:
        workload.end()
    stand.finish_all(versions.write_last(stand))
    return versions.find_wrong(stand.read(versions.TABLE), versions.rows_of(stand), preloaded=False)


@pytest.mark.thorough
def test_no_row_comes_twice_or_goes_back_in_time_under_sigkill(snapshot: Make) -> None:
    made = snapshot(2, snapshot_range_rows="700", max_batch_size="40")
    assert run_with_kills(made, seed=1, kills=1, rows=4000) == []
    segments = [len(one.segments) for one in made.state().ranges.values()]
    assert max(segments) > 1, "no range was taken up again"
    assert len(segments) > 2


@pytest.mark.slow
def test_the_same_without_the_filter_is_wrong(snapshot: Make) -> None:
    made = snapshot(2, snapshot_range_rows="700", max_batch_size="40")
    made.hooks = ["unfiltered"]
    assert len(run_with_kills(made, seed=1, kills=2, rows=4000)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_same_for_longer(snapshot: Make, seed: int) -> None:
    made = snapshot(3, snapshot_range_rows="2000", max_batch_size="200")
    assert run_with_kills(made, seed=seed, kills=10, rows=30_000) == []
