"""The machine's clock is set forward, then back, under a running platform, its broker and its Redis included."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import await_calm, flows
from tests.e2e.flow import Flow
from tests.e2e.up import Up, environment
from tests.support.clock_shift import ShiftedClock
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
Make = Callable[..., Flow]
HOUR = 3600.0
JUMPS = {"an hour ahead": HOUR, "ten minutes back": HOUR - 600.0}
SET_BACK = "This machine's clock was set back by 600 s"


@pytest.fixture
def clock(tmp_path: Path) -> ShiftedClock:
    return ShiftedClock(tmp_path)


@pytest.fixture
def shifted(clock: ShiftedClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("shifted"), workers=2, settings=clock.settings) as up:
        yield up


@pytest.fixture
def stream(shifted: Up) -> Iterator[Make]:
    await_calm(shifted)
    yield from flows(shifted)


def test_the_clock_is_really_set(clock: ShiftedClock) -> None:
    clock.set_off(HOUR)
    script = "import json, time; print(json.dumps([time.time(), time.monotonic()]))"
    told = subprocess.run([sys.executable, "-c", script], env=environment(clock.settings), capture_output=True)
    wall, monotonic = json.loads(told.stdout)
    assert abs(wall - time.time() - HOUR) < 30
    assert abs(monotonic - time.monotonic()) < 30


@pytest.mark.timeout(900)  # here, as that of the folder stands nearer than one of the module
def test_nothing_is_lost_and_nothing_twice(shifted: Up, clock: ShiftedClock, stream: Make) -> None:
    flow_by_poll, flow_by_interval = stream("poll", interval_ms=0), stream("interval", tasks=2, interval_ms=500)
    for name, seconds in JUMPS.items():
        clock.set_off(seconds)
        began = time.monotonic()
        print(f"the clock is {name}", flush=True)
        if name.endswith("back"):
            # The waits of the processes that run now would last ten minutes longer; those started after it do not.
            for worker in ("worker-1", "worker-2"):
                eventually(lambda worker=worker: SET_BACK in shifted.log(worker), 30, f"{worker} says so")  # type: ignore[misc]
        for flow in (flow_by_poll, flow_by_interval):
            flow.await_progress(200, timeout=240)
            print(f"{flow.name} moves records again after {time.monotonic() - began:.1f} s", flush=True)
            flow.settle()
        await_calm(shifted)
        shifted.rest.settled(202, "PUT", f"/connectors/{flow_by_poll.name}/pause")
        flow_by_poll.await_states("PAUSED")
        shifted.rest.settled(202, "PUT", f"/connectors/{flow_by_poll.name}/resume")
        flow_by_poll.await_progress()
        # What was made after the jump works as what was there before.
        new = stream("new")
        new.settle()
        new.delete()
