"""Workers that stand still: their tasks move once and quickly if it was for long, and not at all if it was short.

Both workers are on one machine here, but a frozen process is there, so nobody learns about it from the process list.
"""

import re
import time
from collections.abc import Callable

import pytest

from tests.e2e import processes
from tests.e2e.flow import Flow
from tests.e2e.topics import await_other_leader, leader
from tests.e2e.up import Up
from tests.support.waiting import eventually

Make = Callable[..., Flow]
Note = Callable[[str, float], None]
MOVED_SECONDS = 9.0  # the session, without which nothing would move, expires after 10 s; here on a busy machine


def on_a_follower(platform: Up, flow: Make, **options: int) -> tuple[Flow, str]:
    """A connector with a task on the worker that does not lead, and one on the leader."""
    leading = leader(platform).worker
    flows = [flow("a", throughput=0), flow("b", **options)]
    if flows[1].worker_of() == leading:
        flows[0].delete()
        flows.append(flow("c", **options))
    assert flows[-1].worker_of() != leading
    return flows[-1], flows[-1].worker_of()


def suspicions(platform: Up) -> int:
    """How often a worker was suspected."""
    logs = "".join(platform.log(f"worker-{number}") for number in range(1, platform.workers + 1))
    return len(re.findall(r"Worker \S+ suspected: ", logs))


def trust(platform: Up, worker: str) -> str:
    rows = platform.rest.expect(200, "GET", "/api/v1/workers")["results"]
    return str(next(row["trust"] for row in rows if row["worker"] == worker))


@pytest.mark.parametrize("seconds", [0.5, pytest.param(1.0, marks=pytest.mark.thorough)])
def test_a_short_stop_moves_nothing(platform: Up, flow: Make, seconds: float) -> None:
    one, victim = on_a_follower(platform, flow)
    before, started = suspicions(platform), one.started()
    for _ in range(5):
        with platform.frozen(processes.tree(platform.pid(victim))):
            time.sleep(seconds)  # the stop itself, as long as a user's would be
        one.await_progress()
    assert suspicions(platform) == before
    assert (one.worker_of(), one.started()) == (victim, started)
    one.settle()


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", [2.0, 5.0])
def test_a_longer_stop_moves_tasks_once_at_most(platform: Up, flow: Make, seconds: float) -> None:
    one, victim = on_a_follower(platform, flow)
    before, started = suspicions(platform), one.started()
    for _ in range(4):
        with platform.frozen(processes.tree(platform.pid(victim))):
            time.sleep(seconds)
        one.await_progress()
    assert one.started() <= started + 1, "moved, and not back"
    assert suspicions(platform) <= before + 3, "each needs a longer silence than the one before"
    one.await_end_of_attempts(victim)
    one.settle()


@pytest.mark.thorough
@pytest.mark.parametrize("roles", [["redis"], ["kafka"], ["redis", "kafka"]], ids="-".join)
def test_nobody_is_suspected_while_what_carries_heartbeats_stands_still(
    platform: Up, flow: Make, roles: list[str]
) -> None:
    one = flow(tasks=2)
    before, started = suspicions(platform), one.started()
    with platform.frozen([platform.pid(role) for role in roles]):
        time.sleep(5)
    one.await_progress()
    assert suspicions(platform) == before
    assert one.started() == started
    one.settle()


@pytest.mark.thorough
def test_a_long_stop_moves_tasks_once_and_quickly(platform: Up, flow: Make, stopwatch: Note) -> None:
    one, victim = on_a_follower(platform, flow, throughput=500)
    before, started = suspicions(platform), one.started()
    began = time.monotonic()
    with platform.frozen(processes.tree(platform.pid(victim))):
        eventually(lambda: one.worker_of() != victim, MOVED_SECONDS, f"another worker than {victim}", pause=0.05)
        stopwatch("placed elsewhere after", time.monotonic() - began)
        stopwatch("records again after", one.await_progress(since=began))
        assert trust(platform, victim) == "suspected"
        time.sleep(max(0.0, began + 20 - time.monotonic()))
    eventually(lambda: trust(platform, victim) == "calming", 30, lambda: trust(platform, victim))
    assert suspicions(platform) == before + 1
    assert one.started() == started + 1
    one.await_end_of_attempts(victim)
    one.settle()
    assert one.worker_of() != victim, "it does not go back at once"


@pytest.mark.thorough
def test_a_silent_leader_is_replaced_before_its_session_expires(platform: Up, flow: Make, stopwatch: Note) -> None:
    one = flow(throughput=500, tasks=2)
    old = leader(platform)
    began = time.monotonic()
    with platform.frozen(processes.tree(platform.pid(old.worker))):
        await_other_leader(platform, old, timeout=MOVED_SECONDS)
        stopwatch("another leader after", time.monotonic() - began)
        stopwatch("records again after", one.await_progress(since=began))
        assert "is taken out of group" in platform.log(leader(platform).worker)
        time.sleep(max(0.0, began + 20 - time.monotonic()))
    eventually(lambda: trust(platform, old.worker) == "calming", 30, lambda: trust(platform, old.worker))
    one.await_end_of_attempts(old.worker)
    one.settle()
