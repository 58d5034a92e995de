"""Fencing rounds on the real broker, with a real leader; the test plays the tasks."""

import time
from collections.abc import Callable
from typing import cast

from ringfence.fencing.topics.events import Event
from ringfence.fencing.topics.status import PLACED, SUPERSEDED, State, TaskStatus
from tests.engine.test_restarts_on_a_broker import T0, C, Cluster, cluster  # noqa: F401 - a fixture
from tests.plugins.conftest import environment  # noqa: F401 - a fixture
from tests.support.waiting import eventually


def at_work(cluster: Cluster) -> TaskStatus:  # noqa: F811 - no fixture here
    """The newest attempt says that it runs."""
    placement = eventually(cluster.placement, 30)
    assert placement is not None
    status = TaskStatus(
        T0, State.RUNNING, placement.worker, placement.generation, placement.attempt, placement.incarnation,
        since_ms=cluster.reporter.now_ms(),
    )  # fmt: skip
    cluster.reporter.status(status)
    eventually(lambda: cluster.status() == status, 30, "it is read")
    return status


def ended(status: TaskStatus) -> TaskStatus:
    return TaskStatus(
        T0, State.UNASSIGNED, status.worker, status.generation, status.attempt, status.incarnation,
        ended=True, why=SUPERSEDED, since_ms=status.since_ms + 1,
    )  # fmt: skip


def test_a_round_waits_for_old_tasks_though_their_successors_are_announced(
    cluster: Cluster,  # noqa: F811 - the fixture that is imported above
    unique: Callable[[str], str],
) -> None:
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
