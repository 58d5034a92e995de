"""Questions to a group whose coordinator moves."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata

from ringfence.fencing.kafka import permission_probes
from ringfence.fencing.kafka.consumer_groups import GroupAdmin
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from ringfence.fencing.kafka.permission_probes import MOVING, NoCoordinator, await_coordinator


def test_a_question_is_asked_again_until_the_group_has_a_coordinator() -> None:
    answers = [None, None, "Stable"]

    @await_coordinator
    def ask() -> str:
        if (found := answers.pop(0)) is None:
            raise NoCoordinator("This is not the correct coordinator")
        return found

    assert ask() == "Stable"
    assert not answers


def test_its_error_is_told_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission_probes, "_SECONDS", 0.1)

    @await_coordinator
    def ask() -> str:
        raise NoCoordinator("This is not the correct coordinator")

    with pytest.raises(NoCoordinator):
        ask()


@pytest.mark.parametrize("code", sorted(MOVING))
def test_a_coordinator_that_moved_is_looked_for_and_never_taken_for_a_group_that_is_gone(code: int) -> None:
    """kafka-python keeps a group's coordinator, and nothing in it forgets one."""
    admin: Any = GroupAdmin.__new__(GroupAdmin)
    known = ClusterMetadata()
    known.add_coordinator(
        SimpleNamespace(error_code=0, node_id=1, host="h", port=1), "group", "g", synthesize_node_id=False
    )
    assert known.get_coordinator("g") == 1
    admin._admin = PythonClient.__new__(PythonClient)
    admin._admin._manager = SimpleNamespace(cluster=known)
    with pytest.raises(NoCoordinator):
        admin._check(code, None, "Describing groups, g")
    assert known.get_coordinator("g") is None
