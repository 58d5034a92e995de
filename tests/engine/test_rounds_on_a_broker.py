"""Fencing rounds on the real broker, with a real leader; the test plays the tasks."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import cast

import pytest

from ringfence.fencing.topics.events import Event
from ringfence.fencing.topics.status import PLACED
from tests.support.broker import Broker
from tests.support.engine_cluster import C, Cluster, at_work, ended
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("quick_restarts")


@pytest.fixture
def patient(broker: Broker, unique: Callable[[str], str], environment: Mapping[str, str]) -> Iterator[Cluster]:
    """A leader whose rounds wait for old tasks longer than a busy machine takes to tell of new ones."""
    made = Cluster(broker, unique, environment, {"CONNECT_TASK_SHUTDOWN_GRACEFUL_TIMEOUT_MS": "60000"})
    made.start()
    yield made
    made.close()


def test_a_round_waits_for_old_tasks_though_their_successors_are_announced(
    patient: Cluster, unique: Callable[[str], str]
) -> None:
    cluster = patient
    config = {"name": C, "connector.class": "VerifiableSource", "topic": unique("numbers")}
    cluster.command("create", {"config": config})
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
