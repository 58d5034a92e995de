"""Fencing rounds on the real broker, with a real leader; the test plays the tasks."""

import time
from collections.abc import Callable
from typing import cast

import pytest

from ringfence.fencing.topics.events import Event
from ringfence.fencing.topics.status import PLACED
from tests.support.engine_cluster import C, Cluster, at_work, ended
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("quick_restarts")


def test_a_round_waits_for_old_tasks_though_their_successors_are_announced(
    cluster: Cluster,
    unique: Callable[[str], str],
) -> None:
    config = {"name": C, "connector.class": "VerifiableSource", "topic": unique("numbers")}
    cluster.command("create", {"config": config})
    eventually(lambda: cluster.leader.state().connector(C).runnable, 30, "its tasks may run")  # else nothing is fenced
    old = at_work(cluster)
    cluster.command("configure", {"config": {**config, "throughput": "9"}})
    eventually(lambda: cluster.status().why == PLACED and cluster.status().generation > old.generation, 30)
    began = time.monotonic()
    while time.monotonic() - began < 1.5:
        assert cluster.leader.state().connector(C).round_pending
        time.sleep(0.05)
    cluster.reporter.status(ended(old))
    eventually(lambda: cluster.leader.state().connector(C).runnable, 30, "the round is over")

    def of_one() -> list[Event]:
        rounds = [event for event in cluster.events() if event["type"] == "round"]
        return [event for event in rounds if len(cast(list[object], event["fenced"])) == 1]

    eventually(of_one, 30, "it is told, shortly after")
    (done,) = of_one()
    assert int(str(done["ms"])) > 1000
