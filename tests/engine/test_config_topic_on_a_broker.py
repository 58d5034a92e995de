"""A worker reads the config topic once: one thread follows it, and a new term continues with what that has read."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from ringfence.engine.config_topic import ConfigTopic
from ringfence.engine.spark.launcher import Launcher
from ringfence.fencing.clock import Deadline, boot_seconds
from ringfence.fencing.errors import FencingError, Retriable, TopicLost, Unreadable
from ringfence.fencing.fetching.log_reader import LogReader
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.consumer import LogRecord, PartitionReader
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics, topic_ids
from ringfence.fencing.topics import config_log
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import ConfigLog, Outdated, StatePublisher, Version
from ringfence.fencing.topics.config_record import ConfigRecord
from ringfence.fencing.topics.config_records import ConnectorRecord, TargetStateRecord, encode
from ringfence.fencing.topics.connector_state import TargetState
from tests.support.broker import Broker
from tests.support.engine_cluster import Cluster
from tests.support.second_leader import Second
from tests.support.waiting import eventually

ONE, TWO = ConnectorName("one"), ConnectorName("two")
UNREADABLE = b"logger-cluster-x"


@pytest.fixture
def silent(broker: Broker, unique: Callable[[str], str], environment: Mapping[str, str]) -> Iterator[Cluster]:
    """A worker whose threads the test starts."""
    made = Cluster(broker, unique, environment)
    yield made
    made.plugins.close()
    made.reporter.close()


@pytest.fixture
def followed(silent: Cluster) -> Iterator[ConfigTopic]:
    """The config topic of a worker that does nothing but follow it."""
    stop = threading.Event()
    following = threading.Thread(target=silent.config_topic.run, args=(stop,))
    following.start()
    yield silent.config_topic
    stop.set()
    following.join(60)
    assert not following.is_alive()


def paused(name: ConnectorName) -> TargetStateRecord:
    return TargetStateRecord(name, TargetState.PAUSED)


def write(cluster: Cluster, *records: ConfigRecord | tuple[bytes, bytes | None]) -> None:
    """As a stranger does."""
    producer = Producer({"bootstrap.servers": cluster.connection.bootstrap})
    for record in records:
        key, value = encode(record) if isinstance(record, ConfigRecord) else record
        producer.produce(cluster.config.config_topic, value, key)
    assert producer.flush(30) == 0


def knows(topic: ConfigTopic, name: ConnectorName) -> bool:
    state = topic.state()
    return state is not None and name in state.connectors


def failure_of(topic: ConfigTopic) -> FencingError | None:
    try:
        topic.check()
    except FencingError as error:
        return error
    return None


def note_readers(kind: type, topic: str, readers: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep in `readers` those of this kind that are open."""
    real, real_close = kind.__init__, kind.close  # type: ignore[misc, attr-defined]

    def note(self: object, connection: Any, name: str, *args: Any, **more: Any) -> None:
        real(self, connection, name, *args, **more)
        if name == topic:
            readers.append(self)

    def forget(self: object) -> None:
        real_close(self)
        if self in readers:
            readers.remove(self)

    monkeypatch.setattr(kind, "__init__", note)
    monkeypatch.setattr(kind, "close", forget)


def test_a_worker_that_leads_again_and_again_has_one_consumer_of_the_config_topic(
    silent: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[object] = []
    note_readers(PartitionReader, silent.config.config_topic, readers, monkeypatch)
    note_readers(LogReader, silent.config.config_topic, readers, monkeypatch)
    silent.start()
    try:
        for n in range(3):
            name = f"numbers-{n}"
            config = {"name": name, "connector.class": "VerifiableSource", "topic": "t", "tasks.max": "1"}
            answer = silent.command("create", {"config": config}, on=name)
            assert answer["ok"], answer
            silent.config_topic.read(Deadline.after(30))
            eventually(lambda: len(readers) == 1, 30, "only the follower reads it")
            term = silent.leader._term
            assert term is not None
            term._over = "the test ends it"
            assert not silent.command("delete", {}, on=name)["ok"]
            eventually(lambda term=term: silent.leader._term not in (None, term), 30, "another term")  # type: ignore[misc]
            assert silent.leader.ready.wait(30)
            assert ConnectorName(name) in silent.leader.state()
            eventually(lambda: len(readers) == 1, 30, "the term has no consumer of its own")
    finally:
        silent._stop.set()
        silent._thread.join(60)
        silent._following.join(60)
    assert readers == []


def test_a_new_leader_begins_with_what_its_worker_has_read(
    cluster: Cluster, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cluster, paused(ONE))
    eventually(lambda: knows(cluster.config_topic, ONE), 30, "the first worker has read it")
    second = Second(cluster, environment)
    second.start()
    try:
        eventually(lambda: knows(second.config_topic, ONE), 30, "the second worker has read it")
        starts: list[tuple[StatePublisher, int]] = []
        real = StatePublisher.take

        def note(self: StatePublisher, start: int, *args: Any, **more: Any) -> Version:
            starts.append((self, start))
            return real(self, start, *args, **more)

        monkeypatch.setattr(StatePublisher, "take", note)
        eventually(lambda: len(cluster.leader.members) == 2, 60, "both are members")
        assert cluster.command("hand_over", {"reason": "r"}, on=None)["ok"]
        assert second.leader.ready.wait(60)
        assert second.leader.state().connector(ONE).target is TargetState.PAUSED
        own = [start for publisher, start in starts if publisher is second.config_topic.publisher]
        assert own
        assert min(own) > 0, "nothing is read again from the beginning"
        assert {publisher for publisher, _ in starts} <= {
            cluster.config_topic.publisher,
            second.config_topic.publisher,
        }
    finally:
        second.close()


def test_what_a_stranger_writes_reaches_the_worker_at_once_and_is_reported_once(cluster: Cluster) -> None:
    eventually(lambda: cluster.leader.state().session_key is not None, 30, "the leader has stamped a record")
    write(cluster, paused(ONE))
    eventually(lambda: knows(cluster.config_topic, ONE), 30, "the worker has read it")
    config = {"name": TWO, "connector.class": "VerifiableSource", "topic": "t", "tasks.max": "1"}
    assert cluster.command("create", {"config": config}, on=TWO)["ok"]
    assert cluster.leader.state().connector(ONE).target is TargetState.PAUSED, "the leader decides with it"

    def reports() -> list[str]:
        return [str(event["key"]) for event in cluster.events() if event["type"] == "foreign"]

    eventually(reports, 30, "it is reported")
    assert reports() == ["target-state-one"]


def test_the_follower_fails_and_recovers_and_its_users_see_it(
    silent: Cluster, followed: ConfigTopic, caplog: pytest.LogCaptureFixture
) -> None:
    write(silent, paused(ONE))
    eventually(lambda: knows(followed, ONE), 30, "it is read")
    stop = threading.Event()
    launcher = Launcher(silent.config, silent.record, silent.reporter, followed)
    running = threading.Thread(target=launcher.run, args=(cast(Any, SimpleNamespace()), stop))
    running.start()
    try:
        with caplog.at_level(logging.ERROR):
            write(silent, (UNREADABLE, b"{"))
            error = eventually(lambda: failure_of(followed), 30, "it says what it cannot read")
            assert isinstance(error, Unreadable)
            eventually(lambda: launcher.failure, 30, "so does the launcher")
            assert str(error) == launcher.failure
            with pytest.raises(Unreadable):
                followed.read(Deadline.after(30))
            assert knows(followed, ONE), "what was read before is kept"
            write(silent, paused(TWO), (UNREADABLE, None))
            eventually(lambda: knows(followed, TWO), 30, "it goes on once the record is replaced")
        eventually(lambda: failure_of(followed) is None and launcher.failure is None, 30, "nothing fails any more")
        assert caplog.text.count("The config topic cannot be read") == 1
    finally:
        stop.set()
        running.join(30)
    assert not running.is_alive()


def test_a_topic_of_the_same_name_is_not_taken_for_the_one_that_was_lost(
    silent: Cluster, followed: ConfigTopic
) -> None:
    write(silent, paused(ONE))
    eventually(lambda: knows(followed, ONE), 30, "it is read")
    name = silent.config.config_topic
    delete_topics(silent.connection, [name], Deadline.after(30))
    eventually(lambda: topic_ids(silent.connection, [name], Deadline.after(30))[name] is None, 30, "it is gone")
    create_topics(silent.connection, [TopicSpec(name)], Deadline.after(60))
    write(silent, paused(TWO))
    followed._confirm_at = 0.0
    eventually(lambda: isinstance(failure_of(followed), TopicLost), 60, "it is another topic")
    with pytest.raises(TopicLost):
        followed.read(Deadline.after(30))
    assert knows(followed, ONE)
    assert not knows(followed, TWO)


def test_after_a_long_sleep_the_topic_is_read_as_a_whole(
    silent: Cluster, followed: ConfigTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a tombstone that came and went meanwhile would be missed."""
    write(silent, paused(ONE))
    eventually(lambda: knows(followed, ONE), 30, "it is read")
    publisher = followed.publisher
    key, value = encode(ConnectorRecord(TWO, {"name": TWO}))
    end = publisher.version.position
    publisher.take(end, [LogRecord(0, end, key, value, 0)], end)
    assert knows(followed, TWO), "as if its tombstone had been missed"
    later = boot_seconds() + 2 * 3600
    monkeypatch.setattr(config_log, "boot_seconds", lambda: later)
    eventually(lambda: not knows(followed, TWO), 30, "what the topic does not say is gone")
    assert knows(followed, ONE)
    write(silent, paused(ConnectorName("three")))
    eventually(lambda: knows(followed, ConnectorName("three")), 30, "it is followed")
    eventually(lambda: failure_of(followed) is None, 30, "and nothing fails")


def test_a_topic_that_has_lost_its_end_is_read_as_a_whole(silent: Cluster, followed: ConfigTopic) -> None:
    write(silent, paused(ONE))
    eventually(lambda: knows(followed, ONE), 30, "it is read")
    publisher = followed.publisher
    end = publisher.version.position
    lost = LogRecord(0, end + 4, *encode(paused(TWO)), 0)
    publisher.take(end, [lost], end + 5)
    with pytest.raises(Outdated, match="its end was lost"):
        followed.read(Deadline.after(30))
    eventually(lambda: publisher.version.position == end, 30, "it is read again")
    assert knows(followed, ONE)
    assert not knows(followed, TWO)
    assert followed.read(Deadline.after(30)) == followed.state()


def test_a_question_without_an_answer_does_not_keep_the_follower_from_reading(
    silent: Cluster, followed: ConfigTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(silent, paused(ONE))
    eventually(lambda: knows(followed, ONE), 30, "it is read")
    asked = threading.Event()

    def refuse(self: ConfigLog, deadline: Deadline, own: int = -1) -> ClusterState:
        asked.set()
        raise Retriable("the broker does not answer")

    monkeypatch.setattr(ConfigLog, "refresh", refuse)
    followed._confirm_at = 0.0
    assert asked.wait(30)
    write(silent, paused(TWO))
    eventually(lambda: knows(followed, TWO), 30, "it reads what comes")
    eventually(lambda: failure_of(followed) is None, 30, "and that is no failure")
