"""Three workers, three tasks, and a monkey: what is visible stays 1..n for each task, and all of it runs at the end.

RINGFENCE_CHAOS_SEED and RINGFENCE_CHAOS_SECONDS choose the long run; a failing one prints its seed.
"""

import os
import secrets
from collections.abc import Iterator

import pytest

from tests.chaos.monkey import Monkey
from tests.chaos.schedule import Act, steps
from tests.e2e.conftest import await_calm
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.names import unique

HALF_A_MINUTE = 30.0
TEN_MINUTES = 600.0


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("chaos"), workers=3) as made:
        yield made


def chaos(up: Up, seed: int, seconds: float) -> Monkey:
    """A run from its start to its verdict."""
    await_calm(up)
    flow = Flow(up, unique("chaos"), tasks=3, throughput=200, interval_ms=200)
    print(f"Seed {seed}, {seconds:g} s", flush=True)
    try:
        flow.create()
        monkey = Monkey(up, flow)
        monkey.run(steps(seed), seconds)
        await_calm(up, 120)
        print(monkey.verdict(), flush=True)
    finally:
        flow.close()
    return monkey


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_half_a_minute(up: Up) -> None:
    monkey = chaos(up, seed=348, seconds=HALF_A_MINUTE)
    assert monkey.done.total() >= 3
    assert monkey.records > 1000


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_minutes(up: Up) -> None:
    seed = int(os.environ.get("RINGFENCE_CHAOS_SEED") or secrets.randbelow(1_000_000))
    seconds = float(os.environ.get("RINGFENCE_CHAOS_SECONDS") or TEN_MINUTES)
    monkey = chaos(up, seed, seconds)
    if seconds >= TEN_MINUTES:
        assert set(monkey.done) == set(Act)
