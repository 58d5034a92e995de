"""An account's connectors have a quota: it comes from its grants, and the leader checks it in the write itself."""

import argparse
from collections.abc import Mapping

import pytest

from ringfence.access.models import Grant
from ringfence.access.principal import ALL_RIGHTS, ROLES, Principal, Right, Verb
from ringfence.commands import users
from ringfence.engine.leader.commands import Delete
from ringfence.engine.leader.commands.command import Plan
from ringfence.engine.leader.commands.saving import plan_change, plan_creation, require, usage, usage_of, within
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import CommitRecord, decode, encode
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests.quota import DEFAULT, NO_LIMITS, QUOTAS, UNLIMITED, Quota
from ringfence.requests.request import Refusal

Config = Mapping[str, str]
NOTHING: Config = {}
THREE = Quota(3, 10, 1000)


def write(state: ClusterState, plan: Plan) -> ClusterState:
    for record in plan(state):
        state = apply(state, state.end, decode(*encode(record)))  # type: ignore[arg-type]
    return state


def creation(name: str, account: str = "ann", quota: Quota = THREE, more: Config = NOTHING) -> Plan:
    own = ConnectorName(name)
    whole = {"name": name, "connector.class": "X", **more}
    plan = plan_creation(own, whole, TargetState.RUNNING, [whole], TopicGrantRecord(own, (), account))
    return within(plan, account, quota, own, whole)


def change(name: str, account: str = "ann", quota: Quota = THREE, more: Config = NOTHING) -> Plan:
    own = ConnectorName(name)
    whole = {"name": name, "connector.class": "X", **more}
    return within(
        plan_change(own, whole, [whole], None, TopicGrantRecord(own, (), account)), account, quota, own, whole
    )


def test_an_accounts_attempts_end_at_its_quota() -> None:
    state = ClusterState()
    refusals: list[Refusal] = []
    for number in range(1000):
        try:
            state = write(state, creation(f"c{number}", quota=Quota(20)))
        except Refusal as refusal:
            refusals.append(refusal)
    assert len(list(state.existing())) == 20
    assert {refusal.status for refusal in refusals} == {403}
    assert "account ann would have 21 connectors, uses 20, and its quota is 20" in refusals[0].message
    assert "ringfence users grant ann … --connectors 21" in refusals[0].message
    state = write(state, creation("of-bob", "bob"))
    assert usage(state, "bob").connectors == 1
    state = write(write(state, Delete(ConnectorName("c0")).records), creation("again", quota=Quota(20)))
    assert usage(state, "ann").connectors == 20


def test_two_creations_at_once_cannot_both_have_the_last_place() -> None:
    """Both plans are made for the same state, and each is evaluated at the end of the log."""
    state = write(write(ClusterState(), creation("a")), creation("b"))
    first, second = creation("c"), creation("d")
    first(state)
    second(state)
    state = write(state, first)
    with pytest.raises(Refusal, match="quota is 3"):
        second(state)


@pytest.mark.parametrize(
    ("config", "what"),
    [({"tasks.max": "11"}, "tasks"), ({"tasks.max": "2147483647"}, "tasks"), ({"filler": "ü" * 500}, "bytes")],
)
def test_tasks_and_bytes_count_in_all(config: dict[str, str], what: str) -> None:
    state = ClusterState()
    with pytest.raises(Refusal, match=what):
        creation("a", more=config)(state)
    state = write(state, creation("a", more={"tasks.max": "6"}))
    state = write(state, creation("b", more={"tasks.max": "4"}))
    with pytest.raises(Refusal, match="would have 11 tasks"):
        creation("c")(state)
    with pytest.raises(Refusal, match="would have 11 tasks"):
        change("b", more={"tasks.max": "5"})(state)
    state = write(state, change("b", more={"tasks.max": "3"}))
    state = write(state, creation("c"))
    assert usage(state, "ann").tasks == 10


def test_what_does_not_grow_is_not_refused() -> None:
    """A quota is younger than some connectors."""
    state = ClusterState()
    for name in ("a", "b", "c", "d"):
        state = write(state, creation(name, quota=NO_LIMITS, more={"tasks.max": "9"}))
    state = write(state, change("a", more={"note": "changed", "tasks.max": "9"}))
    state = write(state, change("a", more={"tasks.max": "2"}))
    with pytest.raises(Refusal, match="tasks"):
        change("a", more={"tasks.max": "3"})(state)
    with pytest.raises(Refusal, match="connectors"):
        creation("e")(state)


def test_a_connector_counts_for_who_saved_it_last_and_with_the_tasks_that_it_has() -> None:
    state = write(ClusterState(), creation("a", "bob", more={"tasks.max": "2"}))
    state = write(state, change("a", "ann", more={"tasks.max": "2"}))
    assert (usage(state, "bob"), usage(state, "ann").connectors) == (Quota(0, 0, 0), 1)
    record = CommitRecord(ConnectorName("a"), 7)
    state = apply(state, state.end, record)
    assert usage(state, "ann").tasks == 7
    assert usage_of({"tasks.max": "${file:a:b}"}).tasks == 1
    require(state, "ann", NO_LIMITS, ConnectorName("b"), {"tasks.max": "100000"})


def test_grants_carry_quotas_and_the_largest_counts() -> None:
    editor = Right(ROLES["editor"], "team-*")
    more = Right(ROLES["editor"], "team-a-*", quota=Quota(9_000, 1, 1))
    who = Principal("ann", "session", (editor, more, Right(ROLES["viewer"], "*", quota=NO_LIMITS)))
    assert who.quota("team-b-x") == DEFAULT
    assert who.quota("team-a-x") == Quota(9_000, DEFAULT.tasks, DEFAULT.config_bytes)
    for via in ("loopback", "server token"):
        assert Principal("x", via, (ALL_RIGHTS,)).quota("c") == NO_LIMITS
    assert all(0 < getattr(DEFAULT, name) < UNLIMITED for name in QUOTAS)


def test_a_grants_row_has_the_default_unless_it_administers_everything() -> None:
    assert Grant(what="editor", pattern="*").quota == DEFAULT
    assert Grant(what="admin", pattern="team-*").quota == DEFAULT
    assert Grant(what="admin", pattern="*").quota == NO_LIMITS
    assert Grant(what="admin", pattern="*", tasks=5).quota == Quota(UNLIMITED, 5, UNLIMITED)
    assert "3 connectors" in str(Grant(what="editor", pattern="*", connectors=3))


def test_the_command_takes_quotas() -> None:
    parser = argparse.ArgumentParser()
    users.add_arguments(parser)
    asked = ["grant", "ann", "--allow", "editor", "--connectors", "7", "--config-bytes", "1000"]
    assert users._quotas(parser.parse_args(asked)) == {"connectors": 7, "config_bytes": 1000}
    assert Verb.EDIT in ROLES["editor"]
