"""The watch of grants compares those of an account again only if its rights have changed, or the connector."""

from concurrent.futures import Future
from typing import Any

import pytest

from ringfence.access.principal import Right, Verb
from ringfence.engine.leader import topic_grant_watch
from ringfence.engine.leader.topic_grant_watch import GrantWatch
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState, Fold
from ringfence.fencing.topics.config_record import ConfigRecord
from ringfence.fencing.topics.config_records import ConnectorRecord
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests.request import Refusal

A, B = ConnectorName("a"), ConnectorName("b")


class Cluster:
    """rights: of the accounts now. compared: the connectors of the grants that were compared in the last look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = ClusterState()
        self.rights: dict[str, tuple[Right, ...]] = {}
        self.compared: list[ConnectorName] = []
        self.refuses = False
        self._changes = topic_grant_watch.changes
        monkeypatch.setattr(topic_grant_watch, "read_rights", lambda names: {name: self.rights[name] for name in names})
        monkeypatch.setattr(topic_grant_watch, "changes", self._compare)
        self._watch = GrantWatch(lambda: True, lambda: self.state, self._submit)

    def _compare(self, grants: Any, rights: Any) -> Any:
        grants = list(grants)
        self.compared = sorted(grant.connector for grant in grants)
        return self._changes(grants, rights)

    def _submit(self, plan: Any, _: Deadline) -> Any:
        if self.refuses:
            raise Refusal(409, "it does not lead")
        self.apply(*plan(self.state))
        result: Future[None] = Future()
        result.set_result(None)
        return result

    def apply(self, *records: ConfigRecord) -> None:
        folding = Fold(self.state)
        for record in records:
            folding.apply(folding.state.end, record)
        self.state = folding.state

    def save(self, name: ConnectorName, user: str) -> None:
        self.apply(ConnectorRecord(name, {}), TopicGrantRecord(name, (("old",),), user, ()))

    def grant(self, user: str, *topics: str) -> None:
        self.rights[user] = (Right(frozenset({Verb.EDIT}), "*", topics),)

    def look(self) -> list[ConnectorName]:
        self.compared = []
        self._watch.look()
        return self.compared

    def topics(self, name: ConnectorName) -> object:
        grant = self.state.connector(name).topic_grant
        return None if grant is None else grant.patterns


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster(monkeypatch)
    for name, user in ((A, "ann"), (B, "bob")):
        cluster.grant(user, "new")
        cluster.save(name, user)
    return cluster


def test_grants_follow_their_accounts(cluster: Cluster) -> None:
    assert cluster.look() == [A, B]
    assert (cluster.topics(A), cluster.topics(B)) == ((("new",),), (("new",),))
    cluster.grant("bob", "newer")
    cluster.look()
    assert (cluster.topics(A), cluster.topics(B)) == ((("new",),), (("newer",),))


def test_only_what_may_be_outdated_is_compared(cluster: Cluster) -> None:
    cluster.look()
    assert cluster.look() == [A, B], "the leader has just written them"
    assert cluster.look() == []
    cluster.save(A, "bob")
    assert cluster.look() == [A]
    assert cluster.topics(A) == (("new",),)
    cluster.apply(ConnectorRecord(B, None))
    cluster.grant("bob", "newest")
    assert cluster.look() == [A], "B is gone"


def test_what_could_not_be_written_is_compared_again(cluster: Cluster) -> None:
    cluster.refuses = True
    with pytest.raises(Refusal):
        cluster.look()
    cluster.refuses = False
    assert cluster.look() == [A, B]
    assert cluster.topics(A) == cluster.topics(B) == (("new",),)
