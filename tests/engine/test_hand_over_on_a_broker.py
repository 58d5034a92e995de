"""On the real broker: the leader resigns, another worker leads, no task moves; a drained worker's tasks do."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from ringfence.engine.leader.members import live_workers
from ringfence.fencing.clock import Deadline
from ringfence.requests.request import Refusal, SentCommand
from tests.support.engine_cluster import C, Cluster
from tests.support.second_leader import Second
from tests.support.waiting import eventually


@pytest.mark.slow
def test_a_leader_that_resigns_is_followed_by_another_and_its_tasks_stay(
    cluster: Cluster,
    unique: Callable[[str], str],
    environment: Mapping[str, str],
) -> None:
    alone = cluster.command("hand_over", {"reason": "r"}, on=None)
    assert (alone["ok"], alone["status"]) == (False, 409)
    assert "no other live worker" in str(alone["message"])
    assert cluster.leader.ready.is_set()
    config = {"name": C, "connector.class": "VerifiableSource", "topic": unique("numbers"), "tasks.max": "2"}
    assert cluster.command("create", {"config": config})["ok"] is True
    eventually(lambda: len(cluster.leader.state().connector(C).placements) == 2, 30, "both tasks are placed")
    second = Second(cluster, environment)
    second.start()
    try:
        eventually(lambda: len(cluster.leader.members) == 2, 30, "the second worker is a member")
        eventually(
            lambda: _workers(cluster) == {"w1", "w2"},
            30,
            "the load is even",
        )
        before = dict(cluster.leader.state().connector(C).placements)
        answer = cluster.command("hand_over", {"reason": "r"}, on=None)
        assert answer["ok"] is True, answer
        assert answer["value"] == {"leader": "w2"}
        assert second.leader.ready.wait(30)
        assert not cluster.leader.ready.is_set()
        both = {"w1", "w2"}
        eventually(lambda: _members_by_group_alone(cluster, second) == both, 30, "w1 has a seat again")
        assert dict(second.leader.state().connector(C).placements) == before
        # The other way round, so that nothing of the first time is left over.
        wanted: SentCommand = {"kind": "hand_over", "connector": None, "body": {"reason": "r"}}
        again = second.commands.execute(wanted, Deadline.after(60))
        assert again["value"] == {"leader": "w1"}
        assert cluster.leader.ready.wait(30)
        drained = {"worker": "w2", "drained": True, "reason": "r"}
        eventually(lambda: len(cluster.leader.members) == 2, 30, "the new leader has seen both")
        assert cluster.command("drain_worker", drained, on=None)["ok"] is True
        eventually(
            lambda: _workers(cluster) == {"w1"},
            30,
            "the drained worker's task is placed elsewhere",
        )
    finally:
        second.close()


def _workers(cluster: Cluster) -> set[str]:
    """Who has tasks; nobody in the moment in which a new member's group has no leader."""
    try:
        return {placement.worker for placement in cluster.leader.state().connector(C).placements.values()}
    except Refusal:
        return set()


def _members_by_group_alone(cluster: Cluster, second: Second) -> set[str]:
    """No word of the status topic about somebody who is away counts."""
    status = second.leader.statuses()
    workers = {name: replace(record, away_until_ms=0) for name, record in status.workers.items()}
    known = replace(status, workers=workers)
    found = live_workers(cluster.connection, cluster.config.group_id, known, Deadline.after(10))
    return {record.worker for record in found}
