"""A member whose client finds no group, or is no member any more, gets another client, and owns the partition then."""

import logging
import time
from typing import cast

import pytest
from confluent_kafka import Consumer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.membership import GroupMembership, GroupMetadata
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.ports import free_port
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.proxy import Fate, Proxy
from tests.support.waiting import eventually


def test_a_client_that_finds_no_group_is_replaced(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """The way to the brokers is open again only when the first client has been given up."""
    topic, group, port = unique("t"), unique("g"), free_port()
    create_topics(Connection(broker.bootstrap), [TopicSpec(topic)], Deadline.after(60))
    proxy = Proxy(port, int(broker.bootstrap.rpartition(":")[2]))
    gained: list[GroupMetadata] = []
    lost: list[str] = []
    proxy.set_trap(lambda _request: True, Fate.HOLD, times=1_000_000)
    member = GroupMembership(
        Connection(f"127.0.0.1:{port}"), group, topic, "m", gained.append, lambda: lost.append("lost"), patience_s=1.0
    )
    first = member._consumer

    def replaced() -> bool:
        member.poll(0.1)
        return member.replaced > 0

    def settled() -> bool:
        member.poll(0.1)
        return member.owns and member._patience_s == 1.0

    try:
        with caplog.at_level(logging.WARNING):
            eventually(replaced, 60, "a new client", pause=0.0)
        assert f"is replaced: group {group}" in caplog.text
        assert member._consumer is not first
        proxy.clear()
        eventually(settled, 120, "a new client is the owner, and no longer in doubt", pause=0.0)
        assert gained[-1].generation > 0
        assert lost == []
    finally:
        member.close()
        proxy.close()


class Stray:
    """A client that believes to be a member, as librdkafka's did for 40 minutes after its broker had been suspended."""

    def poll(self, seconds: float) -> None:
        time.sleep(seconds)

    def memberid(self) -> str:
        return "m-whom-nobody-knows"

    def close(self) -> None:
        pass


def test_a_client_that_the_coordinator_does_not_know_is_replaced(broker: Broker) -> None:
    topic, group = unique("t"), unique("g")
    create_topics(Connection(broker.bootstrap), [TopicSpec(topic)], Deadline.after(60))
    gained: list[GroupMetadata] = []
    lost: list[str] = []
    member = GroupMembership(
        Connection(broker.bootstrap), group, topic, "m", gained.append, lambda: lost.append("lost"), patience_s=1.0
    )

    def owns(generations: int) -> bool:
        member.poll(0.1)
        return member.owns and len(gained) >= generations

    try:
        eventually(lambda: owns(1), 60, "the first client is the owner", pause=0.0)
        member._consumer.close()
        member._consumer = cast("Consumer", Stray())
        eventually(lambda: owns(2) and member.replaced == 1, 60, "a new client is the owner", pause=0.0)
        assert lost == ["lost"]
        until = time.monotonic() + 4
        while time.monotonic() < until:  # long enough for several questions
            member.poll(0.1)
        assert member.replaced == 1, "a member that is known stays"
        assert member.owns
    finally:
        member.close()
