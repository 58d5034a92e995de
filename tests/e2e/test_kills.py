"""SIGKILL to what runs a task: it is placed again within 15 s, and every record is there once."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from ringfence.local.guarded_process import process_exists
from tests.e2e import processes
from tests.e2e.flow import Flow
from tests.e2e.machine import promised, watched
from tests.e2e.up import Up
from tests.support.waiting import eventually

PROMISED_SECONDS = 15
WAIT_SECONDS = 60.0
"""Far more, so that what is judged is measured first."""


@pytest.mark.thorough
def test_a_killed_task_process_is_placed_again(
    platform: Up, flow: Callable[..., Flow], stopwatch: Callable[[str, float], None]
) -> None:
    one = flow(interval_ms=0)
    victim = one.process(one.worker_of())
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    recovered = one.await_progress(timeout=promised(PROMISED_SECONDS), since=killed)
    stopwatch("streaming again after the kill of the task's process", recovered)
    one.settle()


def test_the_tasks_of_a_killed_worker_are_placed_again(
    platform: Up, flow: Callable[..., Flow], stopwatch: Callable[[str, float], None]
) -> None:
    one = flow()
    pid, before = platform.pid(one.worker_of()), one.started()
    family = processes.tree(pid)
    with watched() as promised_here:
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not any(map(process_exists, family)), 5, "the end of the worker's processes")
        # What was committed right before the kill becomes visible after it: progress alone proves no takeover. The
        # worker that is started in the victim's place may be quicker than the group is with its loss, and take the
        # task.
        eventually(lambda: one.started() > before, WAIT_SECONDS, "another attempt", pause=0.1)
        one.await_progress(timeout=WAIT_SECONDS)
        recovered = time.monotonic() - killed
    stopwatch("streaming again after the kill of the worker", recovered)
    assert recovered < promised_here(PROMISED_SECONDS)
    one.settle()
