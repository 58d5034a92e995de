"""The leader finds what hangs by itself, ends what is safe to end, and names the rest: against a real broker."""

import time
from collections.abc import Callable

from confluent_kafka import Consumer

from ringfence.engine.leader.hanging_watch import HangingResult, end_hanging, list_clusters_with_topics
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, leader_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.open_transactions import GROUP_OFFSETS, Hanging, HangingProber
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import ConnectorRecord
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from ringfence.worker_config import WorkerConfig
from tests.support.hanging import append, group_offset_key
from tests.support.waiting import eventually

NOBODYS = 887_654_321
YEARS_AGO_MS = 1_500_000_000_000


def test_it_ends_its_own_and_old_ones_and_names_the_rest(trusting: EmbeddedKafka, unique: Callable[[str], str]) -> None:
    where, topic, group, name = Connection(trusting.bootstrap), unique("t"), unique("g"), ConnectorName(unique("c"))
    offsets = unique("offsets")
    create_topics(where, [TopicSpec(topic), TopicSpec(offsets)], Deadline.after(30))
    given = {
        "CONNECT_BOOTSTRAP_SERVERS": trusting.bootstrap,
        "CONNECT_GROUP_ID": group,
        "CONNECT_OFFSET_STORAGE_TOPIC": offsets,
    }
    worker = WorkerConfig.from_environment(given)
    state = apply(ClusterState(), 0, ConnectorRecord(name, {"connector.class": "VerifiableSource", "topic": topic}))
    live = Producer(where, unique("somebodys"))
    live.init(Deadline.after(30))
    live.begin()
    live.produce(topic, b"open", timestamp=YEARS_AGO_MS)
    assert live.flush(20) == 0
    with Fencer(where) as fencer:
        (ours,) = fencer.fence([f"{group}-{name}-0"], Deadline.after(30))
    append(where.bootstrap, offsets, ours.producer_id, ours.epoch, int(time.time() * 1000), ours.transactional_id)
    append(where.bootstrap, topic, NOBODYS, 0, YEARS_AGO_MS)
    (place,) = list_clusters_with_topics(state, {name: [topic]}, worker)
    hung_ms = 0.0

    def seen(cluster: str, one: Hanging) -> float:
        return hung_ms

    def found() -> dict[int, HangingResult]:
        return {one.one.producer_id: one for one in end_hanging(place, group, seen)}

    first = found()
    assert set(first) == {ours.producer_id, NOBODYS}, "a coordinator holds the live one"
    assert first[ours.producer_id].ended, "its coordinator has said that it holds no such transaction"
    left = first[NOBODYS]
    assert not left.ended, "old records prove nothing: nobody tells whose it is"
    assert (left.connectors, left.one.topic) == ((name,), topic)
    assert "ended automatically" in left.why_not
    hung_ms = 15 * 60_000 + 10_001
    assert found()[NOBODYS].ended
    assert found() == {}
    with HangingProber(where) as prober:
        assert [one.producer_id for one in prober.open_on([topic, offsets])] == [live.producer_id]
    live.commit(Deadline.after(30))
    live.close()


def test_the_leaders_own_is_ended_at_once_also_on_the_topic_of_the_groups(
    trusting: EmbeddedKafka, unique: Callable[[str], str]
) -> None:
    """Its commits write there, too. What others left there is theirs: it is neither ended nor reported."""
    where, group, configs = Connection(trusting.bootstrap), unique("g"), unique("configs")
    create_topics(where, [TopicSpec(configs)], Deadline.after(30))
    given = {
        "CONNECT_BOOTSTRAP_SERVERS": trusting.bootstrap,
        "CONNECT_GROUP_ID": group,
        "CONNECT_CONFIG_STORAGE_TOPIC": configs,
    }
    consumer = Consumer({**where.librdkafka(), "group.id": unique("any")})  # its topic is made with the first group
    consumer.subscribe([configs])
    eventually(lambda: consumer.poll(0.2) is not None or bool(consumer.assignment()), 60, "a group")
    consumer.close()
    with Fencer(where) as fencer:
        (ours, theirs) = fencer.fence([leader_transactional_id(group), unique("theirs")], Deadline.after(30))
    now_ms = int(time.time() * 1000)
    append(where.bootstrap, configs, ours.producer_id, ours.epoch, now_ms, ours.transactional_id)
    key = group_offset_key(group, configs)
    for each in (ours, theirs):
        who = (each.producer_id, each.epoch, now_ms, each.transactional_id)
        append(where.bootstrap, GROUP_OFFSETS, *who, key=key, value=None)
    (place,) = list_clusters_with_topics(ClusterState(), {}, WorkerConfig.from_environment(given))
    found = end_hanging(place, group, lambda _cluster, _one: 0.0)
    mine = [one for one in found if one.one.producer_id == ours.producer_id]
    assert {one.one.topic for one in mine} == {configs, GROUP_OFFSETS}
    assert all(one.ended for one in mine)
    assert theirs.producer_id not in {one.one.producer_id for one in found}
    with HangingProber(where) as prober:
        left = {one.producer_id for one in prober.open_on([configs, GROUP_OFFSETS])}
        assert ours.producer_id not in left
        assert theirs.producer_id in left
        for one in prober.open_on([GROUP_OFFSETS]):
            prober.abort(one)
