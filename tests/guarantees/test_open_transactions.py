"""What an attempt leaves behind: no transaction that readers of committed records would have to wait for."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from ringfence.connectors.api import SourceRecord
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.open_transactions import HangingProber, Transaction, TransactionProber
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.offsets.source_offsets import encode_key, encode_value
from ringfence.fencing.task import start_progress
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.events import decode
from ringfence.fencing.topics.status import State
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.stage import PARTITION, Counting, Script, Stage
from tests.support.broker import Broker
from tests.support.hanging import append
from tests.support.proxy import Api, Fate, Proxied
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

LONG = {"producer.override.transaction.timeout.ms": "600000"}


def transaction_of(stage: Stage) -> Transaction:
    """What the coordinator knows of the task's id."""
    with TransactionProber(stage.connection) as prober:
        return prober.transactions([f"{stage.group}-{stage.connector}-0"], Deadline.after(30))[0]


class TooLarge(Counting):
    """Its records are larger than their topic takes; its transactions reach the offsets topic, too."""

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(PARTITION, {"next": number + 1}, f"{self.topic}-small", b"x" * 2000)


def test_a_commit_that_the_broker_refuses_is_aborted(stage: Stage) -> None:
    create_topics(
        stage.connection, [TopicSpec(f"{stage.data}-small", config={"max.message.bytes": "500"})], Deadline.after(30)
    )
    config = {"topic": stage.data, **LONG}
    stage.configure(config)
    stage.count()
    outcome = stage.start(Script(limit=1), config, kind=TooLarge).ended(120)
    assert outcome.trace is not None
    assert "MESSAGE_TOO_LARGE" in outcome.trace
    assert not outcome.left_open
    eventually(lambda: not transaction_of(stage).open, 10, "the end of the transaction")
    assert stage.offset() == 0


def started(stage: Stage, attempt: int) -> float:
    """Seconds from a placement to the first record of that attempt."""
    before, began = len(stage.visible()), time.monotonic()
    running = stage.start(Script(limit=before + 1), {"topic": stage.data}, attempt)
    stage.wait_for(before + 1)
    took = time.monotonic() - began
    running.run.end()
    running.ended()
    return took


def test_a_neighbour_starts_beside_a_record_over_the_limit(
    stage: Stage, broker: Broker, unique: Callable[[str], str]
) -> None:
    """As fast as alone, though the other's transactions reach their offsets topic, and may stay open for ten minutes.

    The best of the starts counts: load slows one start or another, and what holds a start holds every one.
    """
    create_topics(
        stage.connection, [TopicSpec(f"{stage.data}-small", config={"max.message.bytes": "500"})], Deadline.after(30)
    )
    neighbour = Stage(Connection(broker.bootstrap), unique("neighbour"))
    neighbour.topics = replace(neighbour.topics, offsets=stage.topics.offsets)
    neighbour.connector = ConnectorName("neighbour")
    neighbour.task = TaskId(neighbour.connector, 0)
    attempts = itertools.count(1)
    beside: list[float] = []
    behind: list[float] = []

    def is_as_fast() -> bool:
        return max(min(beside), min(behind)) < max(2.0, 3 * min(alone))  # a busy machine is slower alone, too

    try:
        neighbour.configure({"topic": neighbour.data})
        neighbour.count()
        alone = [started(neighbour, next(attempts)) for _ in range(2)]
        config = {"topic": stage.data, **LONG}
        stage.configure(config)
        stage.count()
        for turn in range(1, 9):
            script = Script(limit=1)
            bad = stage.start(script, config, turn, kind=TooLarge)
            eventually(partial(len, script.instances), 60, "the first record over the limit")
            beside.append(started(neighbour, next(attempts)))
            bad.ended(120)
            behind.append(started(neighbour, next(attempts)))
            if turn >= 2 and is_as_fast():
                break
    finally:
        neighbour.close()
    print(f"alone {alone}, beside {beside}, behind {behind}")
    eventually(lambda: not transaction_of(stage).open, 10, "the end of the transaction")
    assert is_as_fast()


def foreign_hangs(stage: Stage) -> Producer:
    """Leave a transaction that no coordinator knows on every partition of the offsets topic. On the first partition,
    also leave an open one, which its coordinator ends after ten minutes at the earliest. Neither belongs to this group.
    """
    offsets = stage.topics.offsets
    producer = Producer(stage.connection, f"{offsets}-foreign", transaction_timeout_ms=600_000)
    producer.init(Deadline.after(30))
    with Fencer(stage.connection) as fencer:
        (other,) = fencer.fence([f"{offsets}-hangs"], Deadline.after(30))
    for partition in range(3):
        append(
            stage.connection.bootstrap,
            offsets,
            other.producer_id,
            other.epoch,
            int(time.time() * 1000),
            other.transactional_id,
            key=b"hangs",
            partition=partition,
        )
    producer.begin()
    producer.produce(offsets, b"open", b"open", 0)
    assert producer.flush(20) == 0
    return producer


def test_a_start_takes_no_longer_beside_a_hanging_transaction(
    trusting: EmbeddedKafka, unique: Callable[[str], str]
) -> None:
    """The best of the starts beside it and the best of those without one, in turns, so that both have the same load.

    On a busy machine it takes more turns until both have had a quiet moment; what holds a start holds every one.
    """
    connection = Connection(trusting.bootstrap)
    free, beside = Stage(connection, unique("free")), Stage(connection, unique("beside"))
    foreign: Producer | None = None
    alone: list[float] = []
    held: list[float] = []

    def close() -> bool:
        return min(held) < min(alone) + max(0.3, min(alone) / 2)

    try:
        for stage in (free, beside):
            stage.configure({"topic": stage.data})
            stage.count()
            started(stage, 1)  # not measured: the topics' leaders and the coordinators are found
        foreign = foreign_hangs(beside)
        assert hangs(beside, [beside.topics.offsets])
        for number in range(2, 12):
            alone.append(started(free, number))
            held.append(started(beside, number))
            if number >= 4 and close():
                break
        assert hangs(beside, [beside.topics.offsets]), "somebody ended it: this has shown nothing"
        for stage in (free, beside):
            stage.exact(1 + len(alone))
    finally:
        if foreign is not None:
            foreign.close()
        for stage in (free, beside):
            stage.close()
    print(f"alone {alone}, beside {held}")
    assert close(), (alone, held)
    assert min(held) < max(2.0, 2 * min(alone))  # a busy machine is slower alone, too


def hang(stage: Stage, topic: str, partition: int, value: bytes, key: bytes | None = None) -> None:
    """A request of an older epoch of the task's producer has come late, behind the end of its transaction."""
    with Fencer(stage.connection) as fencer:
        (old,) = fencer.fence([f"{stage.group}-{stage.connector}-0"], Deadline.after(30))
    append(
        stage.connection.bootstrap,
        topic,
        old.producer_id,
        old.epoch,
        int(time.time() * 1000),
        old.transactional_id,
        key=key,
        value=value,
        partition=partition,
    )


def hangs(stage: Stage, topics: list[str]) -> bool:
    with HangingProber(stage.connection) as prober:
        return bool(prober._open(topics))


@pytest.fixture
def trusting_stage(trusting: EmbeddedKafka, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(trusting.bootstrap), unique("hang"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("where", "renewed", "joint"),
    [
        pytest.param("data", False, False, id="data, at a start"),
        pytest.param("data", True, False, id="data, when the producer is renewed"),
        pytest.param("offsets", False, False, id="offsets, at a start"),
        pytest.param("offsets", True, False, id="offsets, when the producer is renewed"),
        pytest.param("data", False, True, id="data, at a start in a process of several"),
        pytest.param("offsets", True, True, id="offsets, when the producer is renewed in a process of several"),
    ],
)
def test_what_hangs_of_an_older_epoch_never_becomes_visible(
    trusting_stage: Stage, where: str, renewed: bool, joint: bool
) -> None:
    """The next commit's marker would make it visible: a record that nobody sent, or an offset that skips 990."""
    stage = trusting_stage
    if joint:
        stage.share_reads()
    config = {"topic": stage.data}
    stage.configure(config)
    stage.count()
    first = Script(limit=10)
    attempt = stage.start(first, config)
    stage.wait_for(10)
    if not renewed:
        attempt.run.end()
        attempt.ended()
    if where == "data":
        hang(stage, stage.data, 0, b"-1")
    else:
        partition = next(n for n in range(3) if holds_offsets(stage, n))
        key, value = encode_key(stage.connector, PARTITION), encode_value({"next": 1000})
        assert value is not None
        hang(stage, stage.topics.offsets, partition, value, key)
    topics = [stage.data, stage.topics.offsets]
    assert hangs(stage, topics)
    first.limit = 20  # a live attempt goes on, is fenced, and takes a new producer
    if not renewed:
        stage.start(first, config, 2)
    stage.wait_for(20)
    eventually(lambda: not hangs(stage, topics), 10, "the end of what hangs")
    stage.attempts[-1].run.end()
    stage.attempts[-1].ended()
    assert stage.exact(20) == 20
    assert "hanging" in told(stage)


def holds_offsets(stage: Stage, partition: int) -> bool:
    log = TopicLog(stage.connection, stage.topics.offsets)
    try:
        return any(record.partition == partition for record in log.read_to_end(Deadline.after(60)))
    finally:
        log.close()


def told(stage: Stage) -> set[str]:
    """The kinds of events that were reported."""
    log = TopicLog(stage.connection, stage.topics.events)
    try:
        decoded = [decode(record.value) for record in log.read_to_end(Deadline.after(60))]
        return {str(event["type"]) for event in decoded if event is not None}
    finally:
        log.close()


def test_an_attempt_that_waits_says_for_what(
    proxied: Proxied, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_progress, "_FIRST_S", 1.0)
    stage = Stage(proxied.direct, unique("waits"))
    config = {"topic": stage.data}
    stage.configure(config)
    stage.count()
    proxied.proxy.set_trap(lambda request: request.api == Api.INIT_PRODUCER_ID, Fate.SILENCE, 1000)

    def through(spec: TaskSpec, timeout_ms: int) -> Producer:
        return Producer(proxied.through, spec.transactional_id, transaction_timeout_ms=timeout_ms)

    def why() -> str:
        """A busy machine may also report a slow read of the config topic before, or no answer of the coordinator: that
        is passed over, and told again later.
        """
        status = stage.status()
        text = status.why if status is not None and status.state is State.UNASSIGNED else ""
        return text if text.startswith("initialising the producer, for ") and "coordinator says" in text else ""

    try:
        began = time.monotonic()
        stage.start(Script(limit=10), config, new_producer=through)
        said = eventually(why, 30, "that it waits for its producer", pause=0.2)
        print(f"After {time.monotonic() - began:.1f} s: {said}")
        assert f"the coordinator says that {stage.group}-{stage.connector}-0 is " in said
        proxied.proxy.clear()
        stage.wait_for(10)
        eventually(lambda: (status := stage.status()) and status.state is State.RUNNING, 20, "RUNNING")
    finally:
        proxied.proxy.clear()
        stage.close()
