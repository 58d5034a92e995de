"""An acknowledged commit outlives a broker: how topics are created, and what preflight says of those that exist."""

from collections.abc import Iterator
from functools import partial

import pytest

from ringfence.connectors.sdk.topic_durability import MIN_ISR, UNCLEAN_ELECTION, add_min_isr
from ringfence.engine.platform_topics import ensure_topics, topics_of
from ringfence.engine.preflight.broker_checks import check_durability
from ringfence.engine.preflight.report import PreflightInput, checks
from ringfence.engine.preflight.subject import Check, Result
from ringfence.fencing.clock import Deadline, SystemClock
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, topic_setting
from ringfence.fencing.records.topic_creation import TopicCreationGroups, TopicMaker
from ringfence.worker_config import WorkerConfig
from tests.support.cluster import three_brokers
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    "config,replicas,brokers,wanted",
    [
        ({}, 3, 1, {MIN_ISR: "2"}),
        ({"cleanup.policy": "compact"}, 5, 1, {"cleanup.policy": "compact", MIN_ISR: "2"}),
        ({MIN_ISR: "1"}, 3, 1, {MIN_ISR: "1"}),  # the user's own word
        ({}, 3, 3, {}),  # the brokers ask for more by themselves
        ({}, 2, 1, {}),  # one broker may be away
        ({}, 1, 1, {}),
    ],
)
def test_three_replicas_mean_that_two_have_it(
    config: dict[str, str], replicas: int, brokers: int, wanted: dict[str, str]
) -> None:
    assert add_min_isr(config, replicas, brokers) == wanted


@pytest.mark.parametrize(
    "replicas,min_isr,unclean,result",
    [
        (1, "1", "false", Result.OK),
        (3, "2", "false", Result.OK),
        (3, "1", "false", Result.FAILED),
        (2, "1", "false", Result.FAILED),
        (3, "2", "true", Result.FAILED),
        (0, "2", "false", Result.UNKNOWN),
        (3, None, None, Result.UNKNOWN),
    ],
)
@pytest.mark.parametrize("required", [True, False])
def test_a_topic_that_may_forget_is_refused_where_exactly_once_is_required(
    replicas: int, min_isr: str | None, unclean: str | None, result: Result, required: bool
) -> None:
    check = check_durability("t", replicas, min_isr, unclean, required=required)
    assert check.result is result
    assert check.refuses is (required and result is Result.FAILED)
    assert bool(check.remedy) is (result is not Result.OK)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerConfig]:
    """Three brokers whose own min.insync.replicas is 1, Kafka's default."""
    brokers = three_brokers(tmp_path_factory.mktemp("three"), default_replication_factor="3")
    try:
        for broker in brokers:
            broker.start()
        yield WorkerConfig.from_environment(
            {
                "CONNECT_BOOTSTRAP_SERVERS": ",".join(broker.bootstrap for broker in brokers),
                "CONNECT_GROUP_ID": "g",
                "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
            }
        )
    finally:
        for broker in reversed(brokers):
            broker.kill()


@pytest.mark.slow
@pytest.mark.broker
def test_on_three_brokers_topics_are_made_safe_and_unsafe_ones_are_found(worker: WorkerConfig) -> None:
    connection, limit = worker.connection(), Deadline.after(60)

    def min_isr(topic: str) -> str | None:
        try:
            return topic_setting(connection, topic, MIN_ISR, limit)
        except FencingError:  # this broker has not heard of it yet
            return None

    ensure_topics(connection, worker, limit)
    names = topics_of(worker)
    for name in (names.config, names.offsets, names.status, names.events):
        eventually(partial(lambda topic: min_isr(topic) == "2", name), 20, name)

    config = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "-1"}
    own_word = {**config, f"topic.creation.default.{MIN_ISR}": "1"}
    for topic, settings in (("made", config), ("made-otherwise", own_word)):
        rules = TopicCreationGroups.of(settings, {})
        assert rules is not None
        TopicMaker(connection, rules, SystemClock(), lambda _: None).ensure(topic)
    eventually(lambda: min_isr("made") == "2", 20)
    eventually(lambda: min_isr("made-otherwise") == "1", 20)
    unclean = TopicSpec("unclean", 1, 3, {UNCLEAN_ELECTION: "true"})
    create_topics(connection, [unclean], limit)
    eventually(lambda: min_isr("unclean") == "2", 20)

    def found(topic: str, support: str) -> list[Check]:
        settings = {"name": "c", "topic": topic, "exactly.once.support": support}
        question = PreflightInput(settings, "supported", False, lambda _: 0, {}, {"w": "enabled"})
        return [check for check in checks(question, worker) if check.result is not Result.OK]

    eventually(lambda: found("made", "required") == [], 30, "the offsets' coordinator is there")
    for topic, key in (("made-otherwise", MIN_ISR), ("unclean", UNCLEAN_ELECTION)):
        (check,) = found(topic, "required")
        assert check.refuses
        assert f"{key}=" in check.remedy
        (check,) = found(topic, "requested")
        assert not check.refuses
