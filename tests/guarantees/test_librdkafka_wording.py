"""A canary for the words of librdkafka's log that safety reads (`fencing.kafka.librdkafka_log`); real parts.

Where a new version says them in another way, nothing becomes unsafe: each commit counts as sent twice, and each
transaction costs a new producer. This test fails then, and `ringfence_task_producers_renewed_total` grows.
"""

from collections.abc import Callable

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.kafka.transactional_producer import TransactionalProducer
from tests.support.broker import Broker


def test_commits_and_the_producers_id_are_said_as_they_are_read(broker: Broker, unique: Callable[[str], str]) -> None:
    where, topic, name = Connection(broker.bootstrap), unique("canary"), unique("canary")
    create_topics(where, [TopicSpec(topic)], Deadline.after(30))
    producer = TransactionalProducer(where, name)
    try:
        producer.init(Deadline.after(30))
        for _ in range(3):
            producer.begin()
            producer.produce(topic, b"x")
            producer.commit(Deadline.after(30))
            assert producer._evidence.answers[-1] == "NO_ERROR", "EndTxn returned …"
            assert not producer.spent
        with Fencer(where) as fencer:
            (fenced,) = fencer.fence([name], Deadline.after(30))
        assert producer.producer_id == fenced.producer_id, "Acquired PID{Id:…,Epoch:…}"
        assert 0 <= producer.epoch < fenced.epoch
    finally:
        producer.close()
