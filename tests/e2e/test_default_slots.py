"""A worker that nobody told how many tasks to take takes more than a handful."""

from pathlib import Path

import pytest

from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.names import unique

CONNECTORS = 50


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_fifty_connectors_one_after_another_run_on_one_worker_without_a_setting(tmp_path: Path) -> None:
    with Up(tmp_path / "platform") as up:
        # With a transaction for each record, this would be about the broker.
        flows = [Flow(up, unique("small"), throughput=1, interval_ms=10_000) for _ in range(CONNECTORS)]
        for flow in flows:
            # Patient: on a busy machine SQLite's file is locked for longer than a request waits.
            up.rest.settled(201, "POST", "/connectors", {"name": flow.name, "config": flow.config()}, timeout=120)
        for flow in flows:
            flow.await_states("RUNNING", 240)
        assert {flow.worker_of() for flow in flows} == {flows[0].worker_of()}
