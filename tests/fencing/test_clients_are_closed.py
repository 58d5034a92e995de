"""Each Kafka client is closed by whoever made it: no thread and no socket is left behind."""

import gc
import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka import permission_probes, topic_admin
from ringfence.fencing.kafka.client_pool import ClientPool, close_idle_clients, forget_admin_clients, login_refused
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import PartitionReader
from ringfence.fencing.kafka.consumer_groups import group_members
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.membership import GroupMembership
from ringfence.fencing.kafka.open_transactions import HangingProber
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.kafka.plain_producers import IdempotentProducer, PlainProducer, ReportProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, topic_identity
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.ports import free_port
from tests.support.broker import Broker
from tests.support.leftovers import native_clients
from tests.support.waiting import eventually

PATIENCE_S = 1.0
"""How long a broker is waited for; whoever asks a new one asks again."""


def fence(connection: Connection) -> None:
    with Fencer(connection, PATIENCE_S) as fencer:
        fencer.fence(["closed-0", "closed-1"], Deadline.after(20))


def probe(connection: Connection) -> None:
    with Prober(connection) as prober:
        prober.write_ids(["closed-0"])


def look_for_hanging(connection: Connection) -> None:
    with HangingProber(connection) as prober:
        prober.hanging(["closed"], [], Deadline.after(5))


def ask_for_members(connection: Connection) -> None:
    try:
        group_members(connection, "closed", Deadline.after(PATIENCE_S))
    finally:
        close_idle_clients()


def ask_as_administrator(connection: Connection) -> None:
    try:
        topic_admin.cluster_id(connection, Deadline.after(PATIENCE_S))
    finally:
        forget_admin_clients()


def read(connection: Connection) -> None:
    reader = PartitionReader(connection, "closed", {0: 0})
    try:
        reader.poll(0.1, 10)
    finally:
        reader.close()


def produce(connection: Connection) -> None:
    producer = Producer(connection, "closed-3")
    try:
        producer.init(Deadline.after(PATIENCE_S))
    finally:
        producer.close()


def join(connection: Connection) -> None:
    seat = GroupMembership(connection, "closed", "closed", "c", lambda _: None, lambda: None)
    try:
        seat.poll(0.2)
    finally:
        seat.close()


CALLERS = [fence, probe, look_for_hanging, ask_for_members, ask_as_administrator, read, produce, join]


def counted() -> tuple[int, int, int]:
    """Python's threads, the native ones, and sockets of this process."""
    gc.collect()
    sockets = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            sockets += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
        except OSError:
            continue
    return threading.active_count(), len(os.listdir("/proc/self/task")), sockets


def names() -> list[str]:
    return [each.name for each in threading.enumerate()]


def answered(caller: Callable[[Connection], None], connection: Connection) -> bool:
    """On a new broker the coordinators' topics are only being made."""
    try:
        caller(connection)
    except Retriable:
        return False
    return True


@pytest.fixture(autouse=True)
def nothing_of_others(caplog: pytest.LogCaptureFixture) -> None:
    # pytest keeps what is logged, kafka-python logs exceptions, and their frames hold the sockets that did not connect.
    caplog.set_level(logging.CRITICAL, "kafka")
    close_idle_clients()
    forget_admin_clients()


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.__name__)
@pytest.mark.parametrize("there", [True, False], ids=["with a broker", "without one"])
def test_nothing_is_left(
    caller: Callable[[Connection], None], there: bool, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counted()
    if there:
        create_topics(Connection(broker.bootstrap), [TopicSpec("closed")], Deadline.after(30))
        forget_admin_clients()
        eventually(lambda: answered(caller, Connection(broker.bootstrap)), 60, "an answer")
    else:
        monkeypatch.setattr(permission_probes, "_BOOTSTRAP_MS", int(PATIENCE_S * 1000))
        monkeypatch.setattr(permission_probes, "login_refused", partial(login_refused, seconds=PATIENCE_S))
        # Not made in vain: what fails to connect is what was left behind.
        nobody = Connection(f"127.0.0.1:{free_port()}")
        try:
            caller(nobody)
        except FencingError:
            pass
        else:
            assert caller in (read, join), "who asks hears that nobody answers"

    def as_before() -> bool:
        now = counted()
        assert all(here <= then for here, then in zip(now, before, strict=True)), (now, names())
        return True

    eventually(as_before, 30, f"no more than {before}")


PRODUCERS: list[Callable[[Connection], Any]] = [
    PlainProducer,
    IdempotentProducer,
    ReportProducer,
]


@pytest.mark.parametrize("make", PRODUCERS, ids=["plain", "idempotent", "reports"])
def test_a_closed_producer_has_no_threads_though_somebody_still_holds_it(make: Callable[[Connection], Any]) -> None:
    """Such as the frames of an error, or a thread that waits for a commit that was given up."""
    before = native_clients()
    producer = make(Connection(f"127.0.0.1:{free_port()}"))
    assert native_clients() > before, "else this shows nothing"
    producer.close()
    eventually(lambda: native_clients() <= before, 20, "the end of its threads")
    producer.close()


def test_an_idle_client_is_closed_though_nobody_asks_again(broker: Broker) -> None:
    before = threading.active_count()
    pool = ClientPool(Prober, idle_seconds=0.3)
    with pool.lease(Connection(broker.bootstrap)):
        pass
    with pool.lease(Connection(broker.bootstrap)):
        assert threading.active_count() > before
    eventually(lambda: threading.active_count() <= before, 20, "the end of the client's thread")


def test_answers_come_though_the_client_was_given_up_meanwhile(broker: Broker) -> None:
    """Where the last reference to a client goes its answers never come, and whoever waits for one waits for ever."""
    connection = Connection(broker.bootstrap)
    over = threading.Event()

    def give_up() -> None:
        while not over.is_set():
            forget_admin_clients()

    thread = threading.Thread(target=give_up)
    thread.start()
    try:
        create_topics(connection, [TopicSpec("closed")], Deadline.after(30))
        for _ in range(100):
            topic_identity(connection, "closed", Deadline.after(30))
    finally:
        over.set()
        thread.join()


def test_a_reader_may_be_closed_while_another_thread_polls(broker: Broker) -> None:
    """And is not used again. librdkafka itself waits for ever, or frees what is in use."""
    create_topics(Connection(broker.bootstrap), [TopicSpec("closed")], Deadline.after(30))
    for _ in range(5):
        reader = PartitionReader(Connection(broker.bootstrap), "closed", {0: 0})
        ended: list[str] = []

        def poll(reader: PartitionReader = reader, ended: list[str] = ended) -> None:
            try:
                while True:
                    reader.poll(0.05, 10)
            except Fatal as error:
                ended.append(str(error))

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        time.sleep(0.1)
        closing = threading.Thread(target=reader.close, daemon=True)
        closing.start()
        closing.join(20)
        thread.join(20)
        assert not closing.is_alive(), "closing does not end"
        assert ended == ["The reader of topic closed is closed already"]
