"""The last records of a topic: what is committed, aborted and open is told apart, and nothing is joined or changed."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.kafka.topic_records import Limits, Tail, Visibility, tail
from tests.support.broker import Broker
from tests.support.transactions import await_markers
from tests.support.waiting import eventually


def producer(broker: Broker, transactional_id: str) -> Producer:
    made = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id})
    made.init_transactions(30)
    return made


def seen(found: Tail) -> dict[bytes | None, Visibility]:
    return {record.value: record.visibility for record in found.records}


@pytest.fixture
def topic(broker: Broker, unique: Callable[[str], str]) -> str:
    name = unique("tail")
    create_topics(Connection(broker.bootstrap), [TopicSpec(name, 2, 1)], Deadline.after(30))
    return name


def test_committed_aborted_and_open_are_told_apart(broker: Broker, topic: str, unique: Callable[[str], str]) -> None:
    connection = Connection(broker.bootstrap, client_id=unique("tail"))
    one_id = unique("one")
    one, other = producer(broker, one_id), producer(broker, unique("other"))

    def send(who: Producer, *values: str, partition: int = 0) -> None:
        for value in values:
            who.produce(topic, value, b"k" * 10, partition, headers=[("h", b"x" * 20), ("none", None)])
        who.flush(30)

    one.begin_transaction()
    send(one, "a", "b")
    send(one, "p1", partition=1)
    one.commit_transaction(30)
    one.begin_transaction()
    send(one, "gone")
    one.abort_transaction(30)
    await_markers(connection, one_id)
    other.begin_transaction()
    send(other, "open")
    one.begin_transaction()
    send(one, "behind")  # committed, but no read_committed reader gets past the one that is open
    one.commit_transaction(30)
    await_markers(connection, one_id)

    found = tail(connection, topic, Deadline.after(30), Limits(size=5))
    committed = {b"a": Visibility.COMMITTED, b"b": Visibility.COMMITTED, b"p1": Visibility.COMMITTED}
    undecided = {b"open": Visibility.OPEN, b"behin": Visibility.OPEN}
    assert seen(found) == {**committed, b"gone": Visibility.ABORTED, **undecided}
    assert found.complete
    ends = {each.partition: (each.first, each.stable, each.end) for each in found.stretches}
    assert ends == {0: (0, 5, 8), 1: (0, 2, 2)}
    (longest,) = [record for record in found.records if record.value == b"behin"]
    assert (longest.value_size, longest.key, longest.key_size) == (6, b"kkkkk", 10)
    assert list(longest.headers) == [("h", b"xxxxx", 20), ("none", None, -1)]
    only = tail(connection, topic, Deadline.after(30), Limits(), committed_only=True)
    assert set(seen(only)) == {b"a", b"b", b"p1"}
    few = tail(connection, topic, Deadline.after(30), Limits(records=2), committed_only=True)
    assert len(few.records) == 2
    other.abort_transaction(30)

    def decided() -> bool:  # the last stable offset moves a moment after the answer
        now = seen(tail(connection, topic, Deadline.after(30), Limits()))
        return (now[b"open"], now[b"behind"]) == (Visibility.ABORTED, Visibility.COMMITTED)

    eventually(decided, 30, "the aborted transaction to be shown as such")

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    groups = {group.group_id for group in admin.list_consumer_groups().result().valid}
    assert f"{connection.client_id}-tail" not in groups


def test_behind_many_markers_the_reading_goes_further_back(
    broker: Broker, topic: str, unique: Callable[[str], str]
) -> None:
    connection = Connection(broker.bootstrap, client_id=unique("tail"))
    one = producer(broker, unique("one"))
    for number in range(30):
        one.begin_transaction()
        one.produce(topic, str(number), partition=0)
        one.flush(30)  # else an abort may come before the broker has heard of the transaction
        if number < 5:
            one.commit_transaction(30)
        else:
            one.abort_transaction(30)
    found = tail(connection, topic, Deadline.after(30), Limits(records=5), committed_only=True)
    assert {record.value for record in found.records} == {b"0", b"1", b"2", b"3", b"4"}


def test_an_empty_topic_has_no_records(broker: Broker, topic: str) -> None:
    found = tail(Connection(broker.bootstrap), topic, Deadline.after(30), Limits())
    assert (list(found.records), found.complete, found.partitions) == ([], True, 2)
