"""Zombies: what ran a task is frozen, the other worker takes over, and then the frozen one wakes up and goes on.

Whatever it still does, every record is there once, and offsets and data agree.
"""

import time
from collections.abc import Callable

import pytest

from tests.e2e import processes
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.waiting import eventually

Make = Callable[..., Flow]
Note = Callable[[str, float], None]
TAKEOVER_SECONDS = 60.0  # generous: how fast it has to be is the kills' matter


def moved(one: Flow, victim: str, timeout: float) -> bool:
    """Wait until the task is placed on another worker than `victim`."""
    return eventually(lambda: one.worker_of() != victim, timeout, f"another worker than {victim}", pause=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "interval_ms", [pytest.param(0, id="poll", marks=pytest.mark.slow), pytest.param(300, id="interval")]
)
def test_the_whole_worker(platform: Up, flow: Make, stopwatch: Note, interval_ms: int) -> None:
    one = flow(throughput=1000, interval_ms=interval_ms)
    victim = one.worker_of()
    began = time.monotonic()
    with platform.frozen(processes.tree(platform.pid(victim))):
        # What was committed right before the freeze becomes visible after it: progress alone proves no takeover.
        moved(one, victim, TAKEOVER_SECONDS)
        taken = one.await_progress(since=began, timeout=TAKEOVER_SECONDS)
        stopwatch("streaming again after the freeze of a worker", taken)
    one.await_end_of_attempts(victim)
    one.settle()


@pytest.mark.thorough
def test_only_the_celery_process(platform: Up, flow: Make, stopwatch: Note) -> None:
    one = flow(throughput=1000)
    victim = one.worker_of()
    began = time.monotonic()
    with platform.frozen([platform.pid(victim)]):
        one.await_progress(timeout=8)  # the task needs Kafka and nothing else; nobody takes over yet
        moved(one, victim, TAKEOVER_SECONDS)
        stopwatch("taken over after the freeze of the Celery process", time.monotonic() - began)
        one.await_progress(timeout=TAKEOVER_SECONDS)
    one.await_end_of_attempts(victim)
    one.settle()


def beside_others(flow: Make, **options: int) -> tuple[Flow, Flow]:
    """A connector that shares its worker with one neighbour, and the only one of the other worker.

    When the other one is deleted, the leader levels the load: the first one moves to the other worker.
    """
    neighbour = flow("a-neighbour", throughput=0)
    neighbour.await_states("RUNNING")
    alone = flow("b-alone", throughput=0)
    alone.await_states("RUNNING")
    one = flow("c-flow", **options)
    assert one.worker_of() != alone.worker_of()
    assert one.worker_of() == neighbour.worker_of()
    return one, alone


@pytest.mark.parametrize(
    "interval_ms", [pytest.param(0, id="poll", marks=pytest.mark.slow), pytest.param(300, id="interval")]
)
def test_only_the_task(platform: Up, flow: Make, interval_ms: int) -> None:
    one, alone = beside_others(flow, throughput=1000, interval_ms=interval_ms)
    victim = one.worker_of()
    with processes.frozen([one.process(victim)]):
        alone.delete()
        moved(one, victim, TAKEOVER_SECONDS)
        one.await_progress(timeout=TAKEOVER_SECONDS)
    one.await_end_of_attempts(victim)
    one.settle()


@pytest.mark.thorough
def test_only_the_jvm(platform: Up, flow: Make) -> None:
    one, alone = beside_others(flow, throughput=1000)
    victim = one.worker_of()
    with processes.frozen([processes.jvm(platform.pid(victim))]):
        one.await_progress(timeout=20)  # its data does not go through the JVM
        alone.delete()
        moved(one, victim, TAKEOVER_SECONDS)
        one.await_progress(timeout=TAKEOVER_SECONDS)
    one.await_end_of_attempts(victim)
    one.settle()
