"""Late requests around SIGKILLs of the broker: nothing missing, nothing twice, all RUNNING soon, nothing left open.

RINGFENCE_CHAOS_SEED and RINGFENCE_CHAOS_SECONDS choose the long run.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.hanging import HangingProber
from tests.chaos.faults import Faults
from tests.e2e.conftest import await_calm
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.proxy import Proxied, proxied_kafka
from tests.support.waiting import eventually

GROUP = "ringfence"
HEALED_SECONDS = 30.0


class Behind(Up):
    """`up` on a broker that it reaches through the proxy."""

    def __init__(self, data: Path, proxied: Proxied, workers: int) -> None:
        self._through = proxied.through.bootstrap
        replicas = {
            f"CONNECT_{topic}_STORAGE_REPLICATION_FACTOR": "1" for topic in ("CONFIG", "OFFSET", "STATUS", "EVENTS")
        }
        settings = {
            "CONNECT_BOOTSTRAP_SERVERS": self._through,
            "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
            **replicas,
        }
        super().__init__(data, workers, settings)

    @property
    def bootstrap(self) -> str:
        return self._through


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with proxied_kafka(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture(scope="module")
def up(proxied: Proxied, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    made = Behind(tmp_path_factory.mktemp("behind"), proxied, workers=2)
    made.start()
    try:
        yield made
    finally:
        made.end()


def hanging(proxied: Proxied, topics: list[str]) -> list[str]:
    """What no coordinator knows of."""
    with HangingProber(proxied.direct) as prober:
        return [one.told for one in prober.hanging(topics, (), Deadline.after(30))]


def play(up: Up, proxied: Proxied, seed: int, seconds: float) -> None:
    await_calm(up)
    flow = Flow(up, unique("faults"), tasks=3, throughput=200, interval_ms=200)
    print(f"Seed {seed}, {seconds:g} s", flush=True)
    try:
        flow.create()
        faults = Faults(proxied, seed, GROUP)
        faults.run(seconds)
        began = time.monotonic()
        flow.await_states("RUNNING", 4 * HEALED_SECONDS)  # a machine that does something else, too, is slower
        flow.await_progress(since=began, timeout=4 * HEALED_SECONDS)
        took = time.monotonic() - began
        print(f"{faults.broker_kills} SIGKILLs, {faults.delivered} late requests; all RUNNING after {took:.1f} s")
        flow.settle()
        topics = [flow.name, "connect-offsets", "connect-configs"]
        eventually(lambda: not hanging(proxied, topics), 90, lambda: hanging(proxied, topics), pause=1.0)
        assert faults.delivered
    finally:
        flow.close()


@pytest.mark.timeout(600)
def test_half_a_minute_of_late_requests(up: Up, proxied: Proxied) -> None:
    play(up, proxied, seed=12, seconds=30)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(10))
def test_three_minutes_of_late_requests(up: Up, proxied: Proxied, number: int) -> None:
    if "RINGFENCE_CHAOS_SECONDS" not in os.environ:
        pytest.skip("long: RINGFENCE_CHAOS_SECONDS=180 plays ten seeds, RINGFENCE_CHAOS_SEED is the first one")
    seed = int(os.environ.get("RINGFENCE_CHAOS_SEED") or 0) + number
    play(up, proxied, seed, float(os.environ["RINGFENCE_CHAOS_SECONDS"]))
