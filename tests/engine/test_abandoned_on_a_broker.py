"""The leader ends what an attempt left open: against a real broker."""

from collections.abc import Callable

from ringfence.engine.leader.hanging_watch import AbandonedAttempts, AbandonedTransactions
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import TransactionProber
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.topics.status import FAILED, State, TaskStatus
from ringfence.fencing.transactions.producer import Producer
from tests.support.broker import Broker
from tests.support.waiting import eventually


def finished(runner: AbandonedTransactions) -> AbandonedAttempts:
    (ended,) = eventually(runner.take_finished, 60, "the fence ends")
    return ended


def test_an_id_is_fenced_once_and_its_transaction_is_ended(broker: Broker, unique: Callable[[str], str]) -> None:
    where, topic, group, name = Connection(broker.bootstrap), unique("t"), unique("g"), ConnectorName(unique("c"))
    create_topics(where, [TopicSpec(topic)], Deadline.after(30))
    held = Producer(where, f"{group}-{name}-0", transaction_timeout_ms=600_000)
    held.init(Deadline.after(30))
    held.begin()
    held.produce(topic, b"open")
    assert held.flush(20) == 0
    attempt = (WorkerId("w"), Generation(7), 1, Incarnation("i"))
    last = TaskStatus(TaskId(name, 0), State.FAILED, *attempt, "trace", ended=True, why=FAILED, left_open=True)
    woken: list[int] = []
    nowhere = [AdminAccess("nobody's credentials", Connection("127.0.0.1:1"))]
    runner = AbandonedTransactions(group, lambda _: [AdminAccess("mine", where)], lambda: woken.append(1))
    lost = AbandonedTransactions(group, lambda _: nowhere, lambda: None, seconds=1)
    try:
        runner.start([last])
        ended = finished(runner)
        assert (ended.attempts, ended.trouble, woken) == ([last], "", [1])
        with TransactionProber(where) as prober:
            (seen,) = prober.transactions([f"{group}-{name}-0"], Deadline.after(30))
        assert not seen.open
        runner.start([last])
        assert runner.take_finished() == []
        assert not runner._running, "it was fenced already"
        lost.start([last])
        assert "No broker" in finished(lost).trouble
    finally:
        runner.close()
        lost.close()
        held.close()
