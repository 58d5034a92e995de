"""`ringfence up` with one worker: what is killed comes back, and a killed `up` leaves nothing and is gone on from."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from ringfence.local.guarded_process import process_exists
from tests.e2e import processes
from tests.e2e.conftest import await_calm, flows
from tests.e2e.flow import Flow
from tests.e2e.machine import promised
from tests.e2e.up import Up, environment
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # a platform of its own; `make demo` kills the only worker, too

PROMISED_SECONDS = 15
Make = Callable[..., Flow]
Note = Callable[[str, float], None]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A platform of this module's own, with one worker."""
    with Up(tmp_path_factory.mktemp("alone"), workers=1) as up:
        yield up


@pytest.fixture
def stream(alone: Up) -> Iterator[Make]:
    """As `flow`, on `alone`."""
    await_calm(alone)
    yield from flows(alone)


def test_a_second_up_on_the_same_directory_is_refused(alone: Up) -> None:
    refused = subprocess.run(
        alone.command(), capture_output=True, text=True, timeout=60, env=environment({}), check=False
    )
    assert refused.returncode == 1
    assert f"Another `ringfence up` (process {alone.lock_holder}) is running on {alone.data}" in refused.stderr
    assert alone.rest.call("GET", "/health").status_code == 200


def test_the_only_worker_is_started_again(alone: Up, stream: Make, stopwatch: Note) -> None:
    one = stream()
    limit = promised(PROMISED_SECONDS) * 1.5  # a JVM starts in it, with what the machine has left then
    killed = time.monotonic()
    os.kill(alone.pid("worker-1"), signal.SIGSEGV)
    recovered = one.await_progress(timeout=limit, since=killed)
    stopwatch("streaming again after the crash of the only worker", recovered)
    assert "Fatal Python error: Segmentation fault" in alone.log("worker-1")
    one.settle()


def test_web_is_started_again_and_its_log_says_where_it_crashed(alone: Up) -> None:
    crashed = alone.pid("web")
    os.kill(crashed, signal.SIGSEGV)
    eventually(lambda: alone.pid("web") != crashed, 60, "another web process")
    log = alone.log("web")
    assert "Fatal Python error: Segmentation fault" in log
    assert "Current thread 0x" in log

    def answers() -> bool:
        try:
            return alone.rest.call("GET", "/health").status_code == 200
        except httpx.TransportError:
            return False

    eventually(answers, 60, "an answer")


def test_a_killed_up_leaves_no_orphans_and_the_next_one_goes_on(alone: Up, stream: Make, stopwatch: Note) -> None:
    one = stream(throughput=1000)
    family = processes.tree(alone.lock_holder)[1:]
    assert len(family) > 8
    killed = time.monotonic()
    alone.kill()
    eventually(lambda: not any(map(process_exists, family)), 15, "the end of everything that `up` had started")
    stopwatch("everything gone after the kill of `up`", time.monotonic() - killed)
    alone.start()
    one.await_progress()
    one.settle()
