"""Grants name topics beside connectors: an editor's connector writes to those only, whatever its transforms say."""

from pathlib import Path

import pytest

from ringfence.access.principal import ROLES, Principal, Right, Verb
from ringfence.connectors.api import ConnectorError
from ringfence.engine.leader.commands import Delete
from ringfence.engine.leader.commands.command import Plan
from ringfence.engine.leader.commands.saving import plan_change, plan_creation
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.leader.term import TopicRecord
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import ConnectorRecord, decode, encode
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_grants import TopicGrantRecord, limits
from ringfence.fencing.topics.topic_log import TopicLog
from tests.e2e.rest import Rest
from tests.security.end_to_end.site import Site
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)

FILE = "FileStreamSource"
C = ConnectorName("team-b-x")


@pytest.fixture(scope="module")
def team_b(site: Site) -> Rest:
    """May edit connectors `team-b-*`, which may write to topics `team-b.*`, by a token for `*.open` alone."""
    rights = ["--allow", "editor", "--pattern", "team-b-*", "--topics", "team-b.*"]
    site.run("users", "create", "team-b", "--no-password", *rights)
    token = site.run("tokens", "create", "team-b", "work", "--allow", "admin", "--topics", "*.open").strip()
    rest = Rest(site.boss.url)
    rest._client.headers["Authorization"] = f"Bearer {token}"
    return rest


def routed(lines: Path, target: str) -> dict[str, str]:
    """A configuration that names no topic but an allowed one, and leads elsewhere."""
    return {
        "connector.class": FILE,
        "tasks.max": "1",
        "file": str(lines),
        "topic": "team-b.lines.open",
        "transforms": "r",
        "transforms.r.type": "RegexRouter",
        "transforms.r.regex": ".*",
        "transforms.r.replacement": target,
    }


def test_a_connector_writes_to_granted_topics_only(site: Site, team_b: Rest, lines: Path) -> None:
    config = {"connector.class": FILE, "tasks.max": "1", "file": str(lines)}
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "payments"}
    for named in ({"topic": "payments"}, {"topic": "team-b.shut"}, {"topic": "team-b.a.open", **letters}):
        answer = team_b.call("POST", "/connectors", {"name": unique("team-b"), "config": {**config, **named}})
        assert answer.status_code == 403, answer.text
        assert "may write to (team-b.*, and of these *.open)" in answer.text
    name, topic = unique("team-b"), unique("team-b.lines") + ".open"
    team_b.create(name, routed(lines, topic))
    site.running(name)

    def arrived() -> bool:
        log = TopicLog(site.up.connection, topic, deadline=Deadline.after(20))
        try:
            return bool(log.read_to_end(Deadline.after(20)))
        finally:
            log.close()

    eventually(arrived, 60, "its record arrives", pause=0.3)
    for target in ("payments", "team-b.shut"):
        attacker = unique("team-b")
        team_b.create(attacker, routed(lines, target))
        trace = site.failure(attacker)
        assert f"{target} is not among the topics that team-b may write to" in trace
        team_b.expect(204, "DELETE", f"/connectors/{attacker}")
    # Whoever saves a configuration vouches for it: the administrator may.
    site.boss.expect(200, "PUT", f"/connectors/{name}/config", {**routed(lines, "payments"), "name": name})
    site.running(name)
    team_b.expect(204, "DELETE", f"/connectors/{name}")


def test_validation_says_so_at_the_setting(team_b: Rest, lines: Path) -> None:
    config = {"connector.class": FILE, "file": str(lines), "topic": "payments", "name": "team-b-new"}
    found = team_b.expect(200, "PUT", f"/connector-plugins/{FILE}/config/validate", config)
    errors = {entry["value"]["name"]: entry["value"]["errors"] for entry in found["configs"]}
    assert "payments is not among the topics" in " ".join(errors["topic"])
    assert found["error_count"] == len([error for each in errors.values() for error in each])


def test_grants_add_up_and_a_tokens_limit_comes_on_top() -> None:
    editor = ROLES["editor"]
    rights = (
        Right(editor, "team-a-*", ("team-a.*",)),
        Right(editor, "*-b", ("b",)),
        Right(frozenset({Verb.VIEW}), "*", ("*",)),
    )
    who = Principal("p", "token", rights, Right(frozenset(Verb), "*", ("*.x", "b")))
    grant = TopicGrantRecord(ConnectorName("team-a-b"), who.topics(Verb.EDIT, "team-a-b"), "p")
    assert [topic for topic in ("team-a.x", "team-a.y", "b", "c.x", "b.x") if grant.covers(topic)] == ["team-a.x", "b"]
    nobody = TopicGrantRecord(C, who.topics(Verb.EDIT, "elsewhere"))
    assert not nobody.covers("b"), "who may edit nothing there may have nothing written there"
    unlimited = Principal("p", "session", (Right(editor, "team-a-*", ("team-a.*",)), Right(editor)))
    assert unlimited.topics(Verb.EDIT, "team-a-b") == ()


def test_the_record_is_read_back_and_ends_with_the_connector() -> None:
    grant = TopicGrantRecord(C, limits([["team-b.*", "x"], ["*"], ["y"]]), "ann")
    assert grant.patterns == (("team-b.*", "x"), ("y",))
    assert decode(*encode(grant)) == grant
    state = apply(ClusterState(), 0, grant)
    state = apply(state, 1, ConnectorRecord(C, {}))
    assert state.connector(C).topic_grant == grant
    state = apply(state, 2, TopicGrantRecord(C, None))
    assert state.connector(C).topic_grant is None


def test_the_leader_writes_the_grant_with_the_configuration() -> None:
    ann, bob = (TopicGrantRecord(C, ((topic,),), name) for topic, name in (("a.*", "ann"), ("b.*", "bob")))

    def after(state: ClusterState, plan: Plan) -> tuple[ClusterState, list[object]]:
        records = [record for record in plan(state) if not isinstance(record, TopicRecord)]
        for record in records:
            state = apply(state, state.end, record)
        return state, list(records)

    state, _ = after(ClusterState(), plan_creation(C, {"a": "1"}, TargetState.RUNNING, [{}], ann))
    assert state.connector(C).topic_grant == ann
    state, records = after(state, plan_change(C, {"a": "1"}, None, None, bob))
    assert records == [bob], "the same configuration is no new generation, but its tasks learn of the topics"
    state, _ = after(state, plan_change(C, {"a": "2"}, [{}], None, None))
    assert state.connector(C).topic_grant is None, "whoever may write anywhere has saved it"
    state, _ = after(state, plan_change(C, {"a": "3"}, [{}], None, ann))
    state, _ = after(state, Delete(C).records)
    assert state.connector(C).topic_grant is None


def test_internal_topics_are_in_no_grant() -> None:
    access = TopicAccess(grant=TopicGrantRecord(C, (("__*", "team-b.*"),)), offsets=frozenset({"team-b.offsets"}))
    for topic in ("__consumer_offsets", "team-b.offsets", "other"):
        with pytest.raises(ConnectorError):
            access.check(topic)
