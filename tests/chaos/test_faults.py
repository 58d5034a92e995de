"""Late requests around SIGKILLs of broker and workers: none missing, none twice, RUNNING soon, nothing left open.

RINGFENCE_CHAOS_SEED and RINGFENCE_CHAOS_SECONDS choose the long run.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.fencing.kafka.open_transactions import HangingProber
from tests.chaos.faults import Faults
from tests.e2e.conftest import await_calm
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.proxy import Proxied, proxied_kafka
from tests.support.waiting import eventually

GROUP = "ringfence"
HEALED_SECONDS = 30.0
LOOK_SECONDS = 120.0
"""Looked at for longer, so that the figures of a slow run are seen, too."""


class Behind(Up):
    """`up` on a broker that it reaches through the proxy."""

    limit = HEALED_SECONDS
    """How long healing may take: on a busy machine, as long as the first start took, as workers are killed, too."""

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
def up(proxied: Proxied, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    made = Behind(tmp_path_factory.mktemp("behind"), proxied, workers=2)
    made.limit = max(HEALED_SECONDS, made.start())
    try:
        yield made
    finally:
        made.end()


def opened(proxied: Proxied, topics: list[str]) -> list[str]:
    """Every transaction that is open there, whether or not a coordinator knows of it."""
    with HangingProber(proxied.direct) as prober:
        return [one.message for one in prober.open_on(topics)]


def play(up: Behind, proxied: Proxied, seed: int, seconds: float) -> None:
    await_calm(up)
    flow = Flow(up, unique("faults"), tasks=3, throughput=200, interval_ms=200)
    print(f"Seed {seed}, {seconds:g} s", flush=True)
    try:
        flow.create()
        level = f"/api/v1/connectors/{flow.name}/log-level"
        ask = {"level": "DEBUG", "minutes": 1}
        faults = Faults(proxied, up, seed, GROUP, lambda: up.rest.call("PUT", level, ask))
        faults.run(seconds)
        began = time.monotonic()
        flow.await_states("RUNNING", LOOK_SECONDS)
        running = time.monotonic() - began
        took = flow.await_progress(since=began, timeout=LOOK_SECONDS)
        print(
            f"Seed {seed}: {faults.broker_kills} SIGKILLs to the broker, {faults.worker_kills} to workers, "
            f"{faults.delivered} late requests, {faults.delivered_of_leader} of them the leader's; "
            f"RUNNING after {running:.1f} s, records of all tasks after {took:.1f} s "
            f"(limit {up.limit:.0f} s)",
            flush=True,
        )
        flow.settle()
        up.rest.settled(202, "PUT", f"/connectors/{flow.name}/pause")
        flow.await_states("PAUSED")
        topics = [flow.name, "connect-offsets", "connect-configs"]
        eventually(lambda: not opened(proxied, topics), 90, lambda: opened(proxied, topics), pause=1.0)
        print(f"Seed {seed}: {flow.reader.count} records, none missing, none twice, nothing open", flush=True)
        assert faults.delivered
        assert took < up.limit
    finally:
        flow.close()


@pytest.mark.slow  # the same late requests, one by one: tests/guarantees/test_unknown_outcomes.py
@pytest.mark.timeout(600)
def test_half_a_minute_of_late_requests(up: Behind, proxied: Proxied) -> None:
    play(up, proxied, seed=12, seconds=30)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(10))
def test_three_minutes_of_late_requests(up: Behind, proxied: Proxied, number: int) -> None:
    if "RINGFENCE_CHAOS_SECONDS" not in os.environ:
        pytest.skip("long: RINGFENCE_CHAOS_SECONDS=180 plays ten seeds, RINGFENCE_CHAOS_SEED is the first one")
    seed = int(os.environ.get("RINGFENCE_CHAOS_SEED") or 0) + number
    play(up, proxied, seed, float(os.environ["RINGFENCE_CHAOS_SECONDS"]))
