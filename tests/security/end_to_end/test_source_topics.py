"""No connector reads an offsets topic of another, or creates topics that its editor was not granted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.access.principal import ROLES, Right, Verb
from ringfence.connectors.api import ConnectorError, SourceRecord
from ringfence.connectors.builtin.kafka_source.cluster import ReadableTopics
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.engine.leader.topic_grant_watch import changes
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, topic_exists
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.fencing.topics.topic_grants import TopicGrantRecord, limits
from ringfence.fencing.topics.topic_log import TopicLog
from tests.e2e.rest import Rest
from tests.security.end_to_end.site import Site
from tests.security.readers import READERS
from tests.support.names import unique
from tests.support.upper_transform import Upper
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(600)

C = ConnectorName("team-a-x")


@pytest.fixture
def team_c(site: Site) -> Iterator[Rest]:
    """May edit connectors `team-c-*`, which may write to `team-c.*`."""
    name = unique("ann")
    site.run(
        "users", "create", name, "--no-password", "--allow", "editor", "--pattern", "team-c-*", "--topics", "team-c.*"
    )
    token = site.run("tokens", "create", name, "work", "--allow", "admin").strip()
    rest = Rest(site.boss.url)
    rest._client.headers["Authorization"] = f"Bearer {token}"
    rest.name = name  # type: ignore[attr-defined]
    yield rest
    rest.close()


def source(site: Site, topics: str, alias: str, reader: str = "KafkaSource") -> dict[str, str]:
    """A reader of the worker's cluster; a topic is called `<alias>.<topic>` at the target."""
    config = {"connector.class": reader, "tasks.max": "1", "topics": topics, "replication.factor": "1"}
    config |= {f"{side}.cluster.bootstrap.servers": site.up.bootstrap for side in ("source", "target")}
    return config | {"source.cluster.alias": alias, "refresh.topics.interval.seconds": "1"}


def write(site: Site, topic: str, *values: bytes) -> None:
    producer = PlainProducer(site.up.connection)
    producer.write(topic, [(b"k", value) for value in values], Deadline.after(20))
    producer.close()


def there(site: Site, topic: str) -> bool:
    return topic_exists(site.up.connection, topic, Deadline.after(20))


def values(site: Site, topic: str) -> list[bytes | None]:
    """Empty where there is no topic."""
    if not there(site, topic):
        return []
    log = TopicLog(site.up.connection, topic, deadline=Deadline.after(20))
    try:
        return [record.value for record in log.read_to_end(Deadline.after(20))]
    finally:
        log.close()


def newest(site: Site, key: str) -> str:
    """The value of the last record in the config topic with this key."""
    log = TopicLog(site.up.connection, "connect-configs", deadline=Deadline.after(20))
    try:
        records = [record for record in log.read_to_end(Deadline.after(20)) if record.key == key.encode()]
    finally:
        log.close()
    return (records[-1].value or b"").decode() if records else ""


@pytest.mark.parametrize(
    "reader",
    [pytest.param(name, marks=() if name == "KafkaSource" else pytest.mark.slow) for name in READERS],
)
def test_offsets_topics_of_others_are_not_read(site: Site, reader: str) -> None:
    """One by its name is refused, one that a pattern matches is left out; one that becomes one is read no further."""
    mine, later, offsets = (unique(f"team-c.{what}") for what in ("data", "later", "offsets"))
    victim, copy = unique("victim"), unique("team-a")
    create_topics(
        site.up.connection,
        [TopicSpec(mine, 1), TopicSpec(later, 1, config={"cleanup.policy": "compact"})],
        Deadline.after(30),
    )
    config = {"connector.class": "VerifiableSource", "topic": unique("t"), "throughput": "20", "tasks.max": "1"}
    site.boss.create(victim, {**config, "offsets.storage.topic": offsets})
    site.running(victim)
    assert f"{offsets} is an internal topic" in site.refused(**source(site, f"{mine},{offsets}", "x", reader))
    write(site, mine, b"1")
    write(site, later, b"a")
    site.boss.create(copy, source(site, f"{mine}, {later}.*, {offsets}.*", "copy", reader))
    eventually(lambda: values(site, f"copy.{mine}") == [b"1"], 60, "what may be read arrives", pause=0.3)
    eventually(lambda: values(site, f"copy.{later}") == [b"a"], 60, "this as well", pause=0.3)
    assert not there(site, f"copy.{offsets}"), "not even created"

    def told(topic: str) -> bool:
        found = site.boss.expect(200, "GET", f"/api/v1/connectors/{copy}/logs?level=WARN")
        assert f"{topic} is an internal topic" in str(found), (found, site.up.log("worker-1")[-3000:])
        return True

    eventually(lambda: told(offsets), 30, "its page says so", pause=0.3)
    thief = unique("victim")
    # Slow: a busy reader hears of it late, and few offsets come before that.
    site.boss.create(thief, {**config, "throughput": "1", "offsets.storage.topic": later})
    site.running(thief)
    # The reader hears of it through the config topic: what the other commits before that moment may be read.
    eventually(lambda: told(later), 30, "its page says this, too", pause=0.3)
    before, committed = values(site, f"copy.{later}"), len(values(site, later))
    eventually(lambda: len(values(site, later)) > committed, 60, "the other connector commits more", pause=0.3)
    write(site, mine, b"2")
    eventually(lambda: values(site, f"copy.{mine}") == [b"1", b"2"], 60, "it goes on reading the others", pause=0.3)
    site.running(copy)
    assert values(site, f"copy.{later}") == before, "not one more offset of the other connector"
    assert len(before) < 20, "nor more than it committed in that moment"
    refused = {**config, "name": unique("victim"), "offsets.storage.topic": mine}
    found = site.boss.expect(200, "PUT", "/connector-plugins/VerifiableSource/config/validate", refused)
    errors = [error for entry in found["configs"] for error in entry["value"]["errors"]]
    assert any("Another connector reads" in error for error in errors), errors
    for name in (victim, copy, thief):
        site.boss.expect(204, "DELETE", f"/connectors/{name}")


def test_target_topics_are_made_under_the_grant_alone(site: Site, team_c: Rest) -> None:
    """Neither created nor given more partitions; and a grant that is taken back ends the writing.

    The leader needs a moment to see the new grant, so the task is paused until then. It reads the resumption behind
    the grant in one topic, and cannot see the one without the other.
    """
    mine, shut = unique("team-c.data"), unique("payments")
    create_topics(site.up.connection, [TopicSpec(mine, 1), TopicSpec(shut, 3)], Deadline.after(30))
    create_topics(site.up.connection, [TopicSpec(f"stolen.{shut}", 1)], Deadline.after(30))
    write(site, mine, b"1")
    named = unique("team-c")
    team_c.create(named, source(site, shut, "stolen"))

    def failed() -> bool:
        status = team_c.status(named)["connector"]
        return status["state"] == "FAILED" and f"stolen.{shut} is not among the topics" in status["trace"]

    eventually(failed, 60, "the connector that names it fails", pause=0.3)
    team_c.expect(204, "DELETE", f"/connectors/{named}")
    by_pattern = unique("team-c")
    team_c.create(by_pattern, source(site, f"{mine}, {shut}.*", "team-c.copy"))
    eventually(lambda: values(site, f"team-c.copy.{mine}") == [b"1"], 60, "what is granted arrives", pause=0.3)
    assert there(site, f"team-c.copy.{shut}"), "this is granted: team-c.*"
    team_c.expect(200, "PUT", f"/connectors/{by_pattern}/config", source(site, f"{mine}.*, {shut}.*", "stolen"))
    eventually(lambda: not team_c.status(by_pattern)["tasks"], 60, "nothing is left to read", pause=0.3)
    log = TopicLog(site.up.connection, f"stolen.{shut}", deadline=Deadline.after(20))
    assert log.partitions == [0], "no partitions were added"
    log.close()
    assert not there(site, f"stolen.{mine}")
    team_c.expect(200, "PUT", f"/connectors/{by_pattern}/config", source(site, mine, "team-c.copy"))
    site.running(by_pattern)
    name = team_c.name  # type: ignore[attr-defined]
    team_c.expect(202, "PUT", f"/connectors/{by_pattern}/pause")
    eventually(lambda: team_c.status(by_pattern)["tasks"][0]["state"] == "PAUSED", 60, "it pauses", pause=0.3)
    write(site, mine, b"2", b"3")
    site.run("users", "grant", name, "--allow", "editor", "--pattern", "team-c-*", "--topics", "team-c.else.*")
    key = f"topic-grant-{by_pattern}"
    eventually(lambda: "team-c.else" in newest(site, key), 60, "the leader writes the new grant", pause=0.3)
    team_c.expect(202, "PUT", f"/connectors/{by_pattern}/resume")
    assert f"is not among the topics that {name} may write to (team-c.else.*)" in site.failure(by_pattern)
    assert values(site, f"team-c.copy.{mine}") == [b"1"]
    site.boss.expect(204, "DELETE", f"/connectors/{by_pattern}")


def test_a_grant_follows_its_account() -> None:
    editor = ROLES["editor"]

    def now(grant: TopicGrantRecord, *rights: Right) -> TopicGrantRecord | None:
        found = changes([grant], {"ann": rights})
        return found[0][1] if found else None

    grant = TopicGrantRecord(C, (("a.*",), ("*.open",)), "ann", (("*.open",),))
    assert now(grant, Right(editor, "team-a-*", ("a.*",))) is None
    changed = now(grant, Right(editor, "team-a-*", ("b.*",)), Right(frozenset({Verb.VIEW}), "*", ("*",)))
    assert changed is not None
    assert changed.patterns == (("b.*",), ("*.open",)), "its token's limit stays"
    gone = now(grant)
    assert gone is not None
    assert not gone.covers("a.open"), "who may edit it no more may have nothing written there"
    unlimited = TopicGrantRecord(C, (), "ann", ())
    assert now(unlimited, Right(editor)) is None
    limited = now(unlimited, Right(editor, "*", ("a.*",)))
    assert limited is not None
    assert limited.patterns == (("a.*",),)
    old = TopicGrantRecord(C, limits([["a.*"], ["*.open"]]), "ann")
    narrowed = now(old, Right(editor, "*", ("b.*",)))
    assert narrowed is not None
    assert not narrowed.covers("b.open"), "of an older record nobody knows what the token said: it gets no wider"
    assert changes([grant], {}) == [], "an account that is gone"
    read = TopicGrantRecord.parse("", C, grant.to_value())
    assert read == grant
    assert TopicGrantRecord.parse("", C, old.to_value()) == old


def test_what_is_not_committed_yet_is_judged_again() -> None:
    access = [TopicAccess(grant=TopicGrantRecord(C, (("a",),), "ann"))]
    path = RecordPath(Upper(), "own", access=lambda: access[0])
    prepared = path.prepare([SourceRecord({}, {}, "a", "x")])
    path.check_again(prepared.topics)
    access[0] = TopicAccess(grant=TopicGrantRecord(C, ((),), "ann"))
    with pytest.raises(ConnectorError, match="a is not among the topics that ann may write to"):
        path.check_again(prepared.topics)


def test_a_task_asks_again_whenever_offsets_topics_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(topics=("connect-configs",))])
    monkeypatch.setattr("ringfence.connectors.builtin.kafka_source.cluster.Cluster.__init__", lambda *_: None)
    monkeypatch.setattr("ringfence.connectors.builtin.kafka_source.cluster.Cluster.cluster_id", lambda _: "")
    readable = ReadableTopics({}, ["named", "x.*"], ["named", "x.1", "x.2"])
    assert readable.check() == frozenset()
    worker_limits.set_offsets_topics(["x.1", "elsewhere"])
    assert readable.check() == {"x.1"}
    assert readable.check() == frozenset()
    worker_limits.set_offsets_topics(["x.1", "x.2"])
    assert readable.check() == {"x.2"}
    worker_limits.set_offsets_topics(["named"])
    for _ in range(2):
        with pytest.raises(ConnectorError, match="named is an internal topic"):
            readable.check()


def test_readers_of_kafka_are_found() -> None:
    """The tests above are for all of them: a new one has to refuse what these refuse."""
    assert READERS == ["KafkaSource", "ShareGroupSource"]
