"""Questions to a group whose coordinator moves."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata

from ringfence.fencing.kafka import permission_probes
from ringfence.fencing.kafka.consumer_groups import GroupAdmin
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from ringfence.fencing.kafka.permission_probes import MOVING, NoCoordinator, Permission, Prober, await_coordinator


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


class Cluster:
    """Answers a prober's requests about ids. node: of the coordinator of all of them."""

    def __init__(self) -> None:
        self.node = 1
        self.denied = False
        self.rounds: list[list[str]] = []

    def answer(self, requests: dict[Any, Any], nodes: dict[Any, int] | None = None) -> dict[Any, Any]:
        kinds = {name: type(each).__name__.removesuffix("Request") for name, each in requests.items()}
        self.rounds.append(sorted(kinds.values()))
        return {name: self._answer(kind, (nodes or {}).get(name)) for name, kind in kinds.items()}

    def _answer(self, kind: str, node: int | None) -> SimpleNamespace:
        denied = 53 if self.denied else 0
        if kind == "EndTxn":
            return SimpleNamespace(error_code=denied or 49)
        if kind == "FindCoordinator":
            return SimpleNamespace(error_code=denied, node_id=self.node)
        code = denied or (0 if node == self.node else 16)
        state = SimpleNamespace(error_code=code, transaction_state="Ongoing", producer_id=7, producer_epoch=2)
        return SimpleNamespace(transaction_states=[state])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def prober(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Prober:
    monkeypatch.setattr(permission_probes, "_PAUSES", (0.0, 0.0, 0.0))
    prober = Prober.__new__(Prober)
    prober._answers, prober._nodes_of_ids = None, {}
    monkeypatch.setattr(prober, "_all", cluster.answer)
    monkeypatch.setattr(prober, "_run", lambda answers: answers)
    return prober


def test_what_may_be_done_with_an_id_is_asked_at_once_where_its_coordinator_is_known(
    prober: Prober, cluster: Cluster
) -> None:
    for _ in range(2):
        may, holders = prober.describe_ids(["g-c-0"])
        assert (may, holders["g-c-0"].producer_id) == ({"g-c-0": Permission.YES}, 7)
    first, second = cluster.rounds[:2], cluster.rounds[2:]
    assert first == [["EndTxn", "FindCoordinator"], ["DescribeTransactions"]]
    assert second == [["DescribeTransactions", "EndTxn"]]


def test_an_ids_coordinator_that_moved_is_looked_for(prober: Prober, cluster: Cluster) -> None:
    prober.describe_ids(["g-c-0"])
    cluster.node = 2
    may, holders = prober.describe_ids(["g-c-0"])
    assert (may, holders["g-c-0"].producer_id) == ({"g-c-0": Permission.YES}, 7)
    assert cluster.rounds[2:] == [["DescribeTransactions", "EndTxn"], ["FindCoordinator"], ["DescribeTransactions"]]


def test_a_right_that_is_revoked_is_noticed_at_the_coordinator(prober: Prober, cluster: Cluster) -> None:
    prober.describe_ids(["g-c-0"])
    cluster.denied = True
    assert prober.describe_ids(["g-c-0"]) == ({"g-c-0": Permission.NO}, {})
    assert prober.write_ids(["g-c-0"]) == {"g-c-0": Permission.NO}
