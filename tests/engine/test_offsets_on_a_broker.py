"""On the real broker, with a real leader: offsets follow their topic, and are moved by hand where they are kept."""

import threading
from collections.abc import Callable, Mapping, Sequence

import pytest

from ringfence.engine.queries import connector_offsets
from ringfence.engine.spark.task_process import run_spec
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Fenced
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.kafka.topic_admin import topic_exists, topic_setting
from ringfence.fencing.offsets.source_offsets import encode_key, encode_value, read_offsets
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from tests.support.engine_cluster import PARTITION, C, Cluster, at, kept, move
from tests.support.waiting import eventually


def numbers(cluster: Cluster, topic: str) -> list[int]:
    log = TopicLog(cluster.connection, topic)
    try:
        return [int(record.value or b"-1") for record in log.read_to_end(Deadline.after(60))]
    finally:
        log.close()


def configure(cluster: Cluster, config: Mapping[str, str]) -> None:
    """Another configuration for the stopped connector, with its round."""
    assert cluster.command("configure", {"config": config})["ok"] is True
    eventually(lambda: not cluster.leader.state().connector(C).round_pending, 30, "the round is over")


def run_until(cluster: Cluster, data: str, number: int) -> None:
    """Run the attempt that is placed until this number is visible, and stop the connector."""
    placement = eventually(cluster.placement, 30)
    assert placement is not None
    reporter = Reporter(cluster.connection, cluster.config.status_topic, cluster.config.events_topic)
    outcome: list[object] = []
    task = threading.Thread(target=lambda: outcome.append(run_spec(cluster.spec(placement), reporter)))
    task.start()
    eventually(
        lambda: number in numbers(cluster, data), 60, lambda: f"{number} is visible; ended: {outcome}", pause=0.2
    )
    assert cluster.command("stop")["ok"] is True
    task.join(30)
    reporter.close()
    assert not task.is_alive()


@pytest.mark.slow
def test_offsets_of_another_cluster_are_moved_there_and_carried_home(
    cluster: Cluster, own_broker: EmbeddedKafka, unique: Callable[[str], str]
) -> None:
    there, workers = Connection(own_broker.bootstrap), cluster.config.offsets_topic
    home = {"name": C, "connector.class": "VerifiableSource", "topic": unique("data")}
    away = {**home, "producer.override.bootstrap.servers": own_broker.bootstrap}
    assert cluster.command("create", {"config": away, "initial_state": "STOPPED"})["ok"] is True
    eventually(lambda: not cluster.leader.state().connector(C).tasks_stale, 30, "the empty task set")
    eventually(lambda: not cluster.leader.state().connector(C).round_pending, 30, "the round is over")
    move(cluster, 40)
    assert read_offsets(there, workers, C, Deadline.after(60)).offset(PARTITION) == {"seqno": 40}
    assert at(cluster, workers) == 40, "and a copy at home"
    assert cluster.command("reset_offsets")["ok"] is True
    assert read_offsets(there, workers, C, Deadline.after(60)).present() == kept(cluster, workers).present() == []
    move(cluster, 41)
    pen = Producer(there, "a-task-of-long-ago")
    pen.init(Deadline.after(30))
    pen.begin()
    pen.produce(workers, encode_value({"seqno": 99}), encode_key(C, PARTITION))  # not copied home
    pen.commit(Deadline.after(30))
    pen.close()
    configure(cluster, home)
    assert at(cluster, workers) == 99, "what counts is what stood there"


class Refusing(PlainProducer):
    """The worker's topic cannot be written."""

    def write(
        self, topic: str, records: Sequence[tuple[bytes, bytes | None]], deadline: Deadline, last: object = ()
    ) -> None:
        raise Fatal("writing the worker's topic: denied")


def test_offsets_follow_their_topic_and_are_moved_by_hand_where_they_are(
    cluster: Cluster, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, first, second, workers = unique("data"), unique("first"), unique("second"), cluster.config.offsets_topic
    config = {"name": C, "connector.class": "VerifiableSource", "topic": data, "throughput": "1000"}
    own = {**config, "offsets.storage.topic": first}
    assert cluster.command("create", {"config": own})["ok"] is True
    assert topic_exists(cluster.connection, first, Deadline.after(30)), "created before the instance starts"
    assert topic_setting(cluster.connection, first, "cleanup.policy", Deadline.after(30)) == "compact"
    run_until(cluster, data, 100)
    last = numbers(cluster, data)[-1]
    assert at(cluster, first) == at(cluster, workers) == last

    move(cluster, 5000)
    assert at(cluster, first) == at(cluster, workers) == 5000
    shown = cluster.leader.offsets.view(C, own, Deadline.after(30))
    assert [(found.partition, found.offset) for found in shown] == [(PARTITION, {"seqno": 5000})]
    not_there = {**config, "offsets.storage.topic": unique("none")}
    assert len(cluster.leader.offsets.view(C, not_there, Deadline.after(30))) == 1, "the worker's fill the gap"
    with monkeypatch.context() as patch:
        patch.setattr(connector_offsets, "PlainProducer", Refusing)
        refused = cluster.command("reset_offsets")
    assert (refused["ok"], "denied" in str(refused["message"])) == (False, True)
    assert at(cluster, first) == 5000, "the worker's tombstone comes first, or none"
    assert cluster.command("reset_offsets")["ok"] is True
    assert kept(cluster, first).present() == kept(cluster, workers).present() == []
    assert len(kept(cluster, workers).all()) == 1, "a tombstone of its own, for the time when compaction took the other"
    move(cluster, 7000)

    configure(cluster, {**config, "offsets.storage.topic": second})
    assert at(cluster, second) == 7000, "carried inside the round"
    frozen = Producer(cluster.connection, cluster.leader.offsets.transactional_id(C))
    frozen.init(Deadline.after(30))
    frozen.begin()
    assert cluster.command("resume")["ok"] is True
    eventually(lambda: cluster.leader.state().connector(C).runnable, 30, "the round is over")
    frozen.produce(second, encode_value({"seqno": 1}), encode_key(C, PARTITION))
    with pytest.raises(Fenced):  # a leader that froze while it moved offsets by hand
        frozen.commit(Deadline.after(30))
    frozen.close()
    run_until(cluster, data, 7100)
    assert numbers(cluster, data)[last + 1] == 7001, "the task went on from what was carried"

    # Back to a topic that still holds an offset of long ago: that one must not come to life.
    newest = at(cluster, second)
    configure(cluster, own)
    assert at(cluster, first) == newest
    configure(cluster, config)
    assert cluster.command("reset_offsets")["ok"] is True
    assert kept(cluster, workers).present() == []
    configure(cluster, own)
    assert kept(cluster, first).present() == [], "what was reset stays reset in the older topic"
