"""A transactional producer that is let go in the middle of a transaction, without a crash of the process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Fenced
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.open_transactions import TransactionProber
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.transactions import producer as producer_module
from ringfence.fencing.transactions.producer import Producer
from tests.support.broker import Broker
from tests.support.proxy import Api, Fate, Proxied

pytestmark = pytest.mark.broker


def sockets_to(port: int) -> int:
    """The number of this process's connections to a port."""
    owned = {link.readlink().name for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(f"socket:[{row[9]}]" in owned and int(row[2].partition(":")[2], 16) == port for row in rows)


def test_a_closed_producer_has_no_connections_and_refuses_calls_though_a_broker_does_not_answer(
    proxied: Proxied, unique: Callable[[str], str]
) -> None:
    topic, transactional_id = unique("answered"), unique("answered")
    create_topics(proxied.direct, [TopicSpec(topic)], Deadline.after(30))
    port = int(proxied.through.bootstrap.rpartition(":")[2])
    before = sockets_to(port)
    producer = Producer(proxied.through, transactional_id)
    producer.init(Deadline.after(60))
    assert sockets_to(port) > before
    trap = proxied.proxy.set_trap(lambda it: it.api == Api.PRODUCE and it.names(transactional_id), Fate.SILENCE)
    producer.begin()
    producer.produce(topic, b"x")
    assert producer.flush(0.1) == 1
    trap.wait()
    patience = Deadline.after(60)
    producer.close()
    assert patience.remaining > 30, "who closes it does not wait for long"
    assert sockets_to(port) == before
    producer.close()
    with pytest.raises(Fatal):
        producer.begin()


def test_after_a_fence_in_the_middle_of_a_commit_it_is_let_go_at_once(
    broker: Broker, unique: Callable[[str], str]
) -> None:
    connection, topic = Connection(broker.bootstrap), unique("fenced")
    create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
    producer = Producer(connection, topic)
    producer.init(Deadline.after(60))
    with Fencer(connection) as fencer:
        fencer.fence([topic], Deadline.after(30))
    producer.begin()
    producer.produce(topic, b"x")
    with pytest.raises(Fenced):
        producer.commit(Deadline.after(60))
    patience = Deadline.after(60)
    assert not producer.abort(patience)
    producer.close()
    assert patience.remaining > 30


def test_a_transaction_that_is_open_is_aborted_first(
    broker: Broker, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "_LAST_SECONDS", 30.0)  # the broker may be busy
    connection, topic = Connection(broker.bootstrap), unique("close")
    create_topics(connection, [TopicSpec(topic, 20)], Deadline.after(30))
    producer = Producer(connection, topic)
    producer.init(Deadline.after(60))
    producer.begin()
    producer.produce(topic, b"x", b"k", 0)
    producer.flush(30)
    with TransactionProber(connection) as prober:
        (before,) = prober.transactions([topic], Deadline.after(30))
        assert before.open, "else this shows nothing"
        producer.close()
        (after,) = prober.transactions([topic], Deadline.after(30))
    assert after.state != "Ongoing", after
