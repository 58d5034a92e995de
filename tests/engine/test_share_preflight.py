"""Preflight of ShareGroupSource: pure rules, and what a real broker with Kafka's own authorizer answers."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient

from ringfence.engine.preflight import cluster_checks
from ringfence.engine.preflight.subject import Check, Result
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import ShareGroupMember, ShareMember, alter_share_group
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, topic_ids
from ringfence.local.kafka import EmbeddedKafka
from ringfence.worker_config import WorkerConfig
from tests.support.broker import login, running_kafka, with_users
from tests.support.transaction_version import set_feature
from tests.support.waiting import eventually

OK, FAILED = Result.OK, Result.FAILED
USERS = [f"u{number}" for number in range(6)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker that asks for a login and denies what is not granted; root is its super user."""
    with running_kafka(tmp_path_factory.mktemp("guarded"), **with_users(*USERS)) as kafka:
        yield kafka


def worker_of(bootstrap: str) -> WorkerConfig:
    given = {
        "CONNECT_BOOTSTRAP_SERVERS": bootstrap,
        "CONNECT_GROUP_ID": "g",
        "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
    }
    return WorkerConfig.from_environment(given)


def ask(bootstrap: str, name: str, topic: str, *, user: str = "", **more: str) -> dict[str, Check]:
    settings = {
        "name": name,
        "connector.class": "connectors.builtin.share_group.ShareGroupSource",
        "topics": topic,
        "source.cluster.bootstrap.servers": bootstrap,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    if user:
        settings |= {
            "source.cluster.security.protocol": "SASL_PLAINTEXT",
            "source.cluster.sasl.mechanism": "PLAIN",
            "source.cluster.sasl.jaas.config": login(user),
        }
    assert [
        *cluster_checks.check_share_group({**settings, "connector.class": "KafkaSource"}, worker_of(bootstrap))
    ] == []
    return {check.name: check for check in cluster_checks.check_share_group(settings, worker_of(bootstrap))}


def failures(found: Mapping[str, Check]) -> set[str]:
    return {name for name, check in found.items() if check.result is not OK}


RIGHTS = {
    "source Describe Group": (ResourceType.GROUP, "g-c", AclOperation.DESCRIBE),
    "source Read Group": (ResourceType.GROUP, "g-c", AclOperation.READ),
    "source AlterConfigs Group": (ResourceType.GROUP, "g-c", AclOperation.ALTER_CONFIGS),
    "source Read Topic guarded-in": (ResourceType.TOPIC, "guarded-in", AclOperation.READ),
}
MORE = [
    (ResourceType.TOPIC, "guarded-in", AclOperation.DESCRIBE_CONFIGS),
    (ResourceType.TOPIC, "guarded-in", AclOperation.DESCRIBE),
]


@pytest.mark.slow
def test_exactly_the_permission_that_lacks_is_named(guarded: EmbeddedKafka) -> None:
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    root = Connection(guarded.bootstrap, {**sasl, "sasl.username": "root", "sasl.password": "root"})
    create_topics(root, [TopicSpec("guarded-in")], Deadline.after(30))
    admin = AdminClient(root.librdkafka())  # type: ignore[arg-type]

    def bind(user: str, kind: ResourceType, name: str, operation: AclOperation, allowed: bool) -> AclBinding:
        permission = AclPermissionType.ALLOW if allowed else AclPermissionType.DENY
        return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, permission)

    for user, lacking in zip(USERS, ["", *RIGHTS], strict=False):
        bindings = [bind(user, *one, name != lacking) for name, one in RIGHTS.items()]
        for future in admin.create_acls([*bindings, *(bind(user, *one, True) for one in MORE)]).values():
            future.result(10)

        def names_it(user: str = user, lacking: str = lacking) -> bool:
            found = ask(guarded.bootstrap, "c", "guarded-in", user=user)
            assert failures(found) == ({lacking} if lacking else set()), found
            return not lacking or (found[lacking].refuses and "Grant" in found[lacking].remedy)

        eventually(names_it, 20, lacking or "nothing lacks", pause=0.2)
    # Who may not describe a topic does not hear that it is not there: the ledger would forget it (`DeletedTopics`).
    stranger = Connection(guarded.bootstrap, {**sasl, "sasl.username": USERS[-1], "sasl.password": USERS[-1]})
    with pytest.raises(FencingError, match=r"(?i)authori"):
        topic_ids(stranger, ["guarded-in"], Deadline.after(20))


@pytest.mark.slow
def test_share_groups_that_are_switched_off_refuse_the_connector(own_broker: EmbeddedKafka) -> None:
    admin = KafkaAdminClient(bootstrap_servers=own_broker.bootstrap)
    try:
        admin.update_features({"share.version": ("SAFE_DOWNGRADE", 0)})
    finally:
        admin.close()

    def is_told() -> bool:
        found = ask(own_broker.bootstrap, "c", "in")
        return set(found) == {"share groups"} and found["share groups"].refuses

    eventually(is_told, 20, "share.version is not finalised", pause=0.2)


@pytest.mark.slow
def test_a_broker_tells_of_strangers_limits_and_waiting_records(
    broker: EmbeddedKafka, unique: Callable[[str], str]
) -> None:
    name, topic = unique("share-preflight"), unique("share-preflight-in")
    connection, group = Connection(broker.bootstrap), f"g-{name}"
    create_topics(connection, [TopicSpec(topic, config={"retention.ms": "3600000"})], Deadline.after(30))
    fresh = ask(broker.bootstrap, name, topic)
    assert failures(fresh) == set(), fresh
    long = ask(broker.bootstrap, name, topic, share_lock_ms="3600000", share_sweep_after_ms="60000")
    assert failures(long) == {"share group settings"}
    assert long["share group settings"].refuses
    late = ask(broker.bootstrap, name, topic, share_sweep_after_ms="7200000")
    assert failures(late) == {f"input topic {topic} retention"}
    pen = Producer(connection.librdkafka())
    for number in range(10):
        pen.produce(topic, b"%d" % number, timestamp=int((time.time() - 2400) * 1000))
    assert pen.flush(30) == 0
    alter_share_group(connection, group, {"auto.offset.reset": "earliest"}, Deadline.after(30))
    members = [ShareMember(connection, group, [topic], client, 5) for client in (f"g-{name}-1", "stranger")]
    busy: set[ShareMember] = set()
    try:

        def met() -> bool:
            # One that has got records keeps them.
            busy.update(member for member in members if member not in busy and member.poll(0.2))
            found = ask(broker.bootstrap, name, topic)
            assert failures(found) == {"share group members", f"input topic {topic} lag"}, found
            told = found["share group members"]
            assert told.refuses
            return "stranger at" in told.message and f"g-{name}-1" not in told.message

        eventually(met, 60, "the stranger, and records that wait", pause=0.2)
    finally:
        for member in members:
            member.close()


def test_a_consumer_group_of_the_name_is_told(broker: EmbeddedKafka, unique: Callable[[str], str]) -> None:
    name, topic = unique("share-preflight"), unique("share-preflight-in")
    connection = Connection(broker.bootstrap)
    create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
    consumer = Consumer(connection.librdkafka(group_id=f"g-{name}"))
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    assert ask(broker.bootstrap, name, topic)["share group type"].refuses


ANSWER: Mapping[str, object] = {
    "errors": {},
    "summary": "1 topic: jobs (1 partition).",
    "proposals": {"topics": "jobs"},
}
SERVERS = "source.cluster.bootstrap.servers"


@pytest.mark.thorough
def test_a_test_of_the_connection_says_whether_there_are_share_groups(tmp_path: Path) -> None:
    with running_kafka(tmp_path) as kafka:
        config = {"connector.class": "ShareGroupSource", SERVERS: kafka.bootstrap}
        worker = worker_of(kafka.bootstrap)
        answer = cluster_checks.complete_examination(ANSWER, config, worker)
        assert answer["summary"] == "1 topic: jobs (1 partition). The cluster has share groups."
        assert answer["proposals"] == ANSWER["proposals"]
        assert (
            cluster_checks.complete_examination(ANSWER, {**config, "connector.class": "KafkaSource"}, worker) == ANSWER
        )
        set_feature(Connection(kafka.bootstrap), "share.version", 0)

        def errors() -> dict[str, list[str]]:
            found: dict[str, list[str]] = cluster_checks.complete_examination(ANSWER, config, worker)["errors"]
            return found

        ((setting, (text,)),) = eventually(errors, 30, "it says that there are none").items()
        assert setting == SERVERS
        assert text.startswith("The source's brokers have no share groups: share.version is not finalised. Upgrade")
        assert text.endswith("kafka-features.sh upgrade --feature share.version=1")


def test_a_source_that_does_not_answer_is_not_asked_for_share_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_checks, "check_share_group", lambda *_: pytest.fail("it was asked"))
    answer = {"errors": {SERVERS: ["No broker answers."]}, "summary": "", "proposals": {}}
    assert cluster_checks.complete_examination(answer, {}, worker_of("127.0.0.1:1")) == answer


def member(client: str) -> ShareGroupMember:
    return ShareGroupMember("m", client, "127.0.0.1", 1, ["in"], [])


def test_only_what_is_ours_by_its_whole_name_is_ours() -> None:
    assert cluster_checks.judge_members("g-c", [member("g-c-0"), member("g-c-12")], "g-c").result is OK
    for client in ("g-c", "g-c-", "g-c-0-1", "xg-c-0", "g-c-d-0", "consumer-1"):
        found = cluster_checks.judge_members("g-c", [member("g-c-0"), member(client)], "g-c")
        assert (found.result, found.decides) == (FAILED, True)
        assert f"{client} at 127.0.0.1" in found.message


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (cluster_checks.judge_version(1), OK),
        (cluster_checks.judge_version(0), FAILED),
        (cluster_checks.judge_election("in", "false", 3), OK),
        (cluster_checks.judge_election("in", "true", 1), OK),
        (cluster_checks.judge_election("in", "true", 3), FAILED),
        (cluster_checks.judge_election("in", None, 3), Result.UNKNOWN),
        (cluster_checks.judge_retention("in", "-1", 60), OK),
        (cluster_checks.judge_retention("in", "60001", 60), OK),
        (cluster_checks.judge_retention("in", "60000", 60), FAILED),
        (cluster_checks.judge_retention("in", None, 60), Result.UNKNOWN),
        (cluster_checks.judge_overdue("in", [3], 1000), FAILED),
    ],
)
def test_each_failure_has_its_remedy(found: Check, result: Result) -> None:
    assert found.result is result
    assert bool(found.remedy) == (result is not OK)
