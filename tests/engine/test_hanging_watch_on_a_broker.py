"""The leader finds what hangs by itself, ends what is safe to end, and names the rest: against a real broker."""

import time
from collections.abc import Callable

from ringfence.engine.leader.hanging_watch import Found, look, places_of
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.admin import TopicSpec, create_topics
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.hanging import Hanging, HangingProber
from ringfence.fencing.kafka.producer import TransactionalProducer
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import ConnectorRecord
from ringfence.local.kafka import EmbeddedKafka
from ringfence.worker_config import WorkerConfig
from tests.support.hanging import append

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
    live = TransactionalProducer(where, unique("somebodys"))
    live.init(Deadline.after(30))
    live.begin()
    live.produce(topic, b"open", timestamp=YEARS_AGO_MS)
    assert live.flush(20) == 0
    with Fencer(where) as fencer:
        (ours,) = fencer.fence([f"{group}-{name}-0"], Deadline.after(30))
    append(where.bootstrap, offsets, ours.producer_id, ours.epoch, int(time.time() * 1000), ours.transactional_id)
    append(where.bootstrap, topic, NOBODYS, 0, YEARS_AGO_MS)
    (place,) = places_of(state, {name: [topic]}, worker)
    hung_ms = 0.0

    def seen(cluster: str, one: Hanging) -> float:
        return hung_ms

    def found() -> dict[int, Found]:
        return {one.one.producer_id: one for one in look(place, group, seen)}

    first = found()
    assert set(first) == {ours.producer_id, NOBODYS}, "a coordinator holds the live one"
    assert first[ours.producer_id].ended, "its coordinator has said that it holds no such transaction"
    left = first[NOBODYS]
    assert not left.ended, "old records prove nothing: nobody tells whose it is"
    assert (left.connectors, left.one.topic) == ((name,), topic)
    assert "ended by itself" in left.why_not
    hung_ms = 15 * 60_000 + 10_001
    assert found()[NOBODYS].ended
    assert found() == {}
    with HangingProber(where) as prober:
        assert [one.producer_id for one in prober.open_on([topic, offsets])] == [live.producer_id]
    live.commit(Deadline.after(30))
    live.close()
