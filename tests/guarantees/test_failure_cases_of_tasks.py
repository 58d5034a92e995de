"""Failure cases of KIP-618, for tasks: stale configurations, transactions that time out, ids and topics that are gone.

Those of leaders and rounds: `test_failure_cases_of_leaders`. Lost and late requests: `test_unknown_outcomes`.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics, topic_ids
from ringfence.fencing.task.clients import transactional_producer
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.config_records import ConfigRecord, TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.stage import Attempt, Counting, Listening, Plain, Script, Stage
from tests.support.harsh import Harsh
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


class Idling(Stage):
    """Its leader, too, would be forgotten between two writes."""

    def write(self, *records: ConfigRecord) -> int:
        self.producer.close()
        self.producer = Producer(self.connection, self.producer.transactional_id)
        self.producer.init(Deadline.after(30))
        return super().write(*records)


@pytest.fixture
def harsh_stage(harsh: Harsh, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Idling(harsh.connection(), unique("failure"))
    yield made
    made.close()


def ready(stage: Stage, **more: str) -> dict[str, str]:
    config = {"topic": stage.data, **{key.replace("_", "."): value for key, value in more.items()}}
    stage.configure(config)
    stage.count()
    return config


def test_a_worker_with_a_stale_configuration_starts_a_task(stage: Stage) -> None:
    """It is told of the newer generation at the first look: it fences nobody, and the plugin never starts."""
    made = ready(stage)
    first = stage.start(Script(limit=100), made)
    first.finish_after(100)
    producers: list[int] = []

    def noted(spec: TaskSpec, timeout_ms: int) -> TransactionalClient:
        producers.append(spec.placement.attempt)
        return transactional_producer(spec, timeout_ms)

    made = ready(stage)
    script = Script()
    current = stage.start(script, made, attempt=2, new_producer=noted)
    stage.wait_for(300)
    stale_script = Script()
    stale = Attempt(first.run._spec, stale_script, made, Counting, Plain(True), noted)
    stage.attempts.append(stale)
    assert stale.ended().trace is None
    assert stale_script.instances == []
    before = len(stage.visible())
    stage.wait_for(before + 300)
    assert set(producers) == {2}, "the stale task has taken no producer"
    assert len(script.instances) == 1, "the current one was not disturbed"
    assert current.outcome is None
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    current.ended()
    stage.exact(before + 300)


@pytest.mark.parametrize("joint", [False, True], ids=["alone", "in a process of several"])
def test_a_task_starts_after_a_newer_generation_was_written(stage: Stage, joint: bool) -> None:
    """Between its first look and its producer: step 4, the config topic to the end after the init, ends it."""
    if joint:
        stage.share_reads()
    made = ready(stage)
    script = Script()
    started = threading.Event()

    silence = ExitStack()

    def overtaken(spec: TaskSpec, timeout_ms: int) -> TransactionalClient:
        assert started.wait(60)
        # The view follows the topic on its own thread: keep the news from it till the producer is initialised.
        silence.enter_context(attempt.run._view._follower._turns.read())
        stage.configure(made)
        producer = transactional_producer(spec, timeout_ms)
        real = producer.init

        def init(deadline: Deadline) -> None:
            real(deadline)
            silence.close()

        producer.init = init  # type: ignore[method-assign]
        return producer

    attempt = stage.start(script, made, new_producer=overtaken)
    started.set()
    assert attempt.ended().trace is None
    assert script.instances == []
    assert stage.visible() == []


def test_a_transaction_that_times_out_says_the_four_remedies(
    harsh_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = harsh_stage
    made = ready(
        stage,
        transaction_boundary="interval",
        transaction_boundary_interval_ms="500",
        producer_override_transaction_timeout_ms="1500",
        # The records go to the broker at once. Otherwise the few of a poll may wait for the commit in the producer, and
        # the broker has no transaction that it could end.
        producer_override_linger_ms="0",
    )
    slow = [True]

    def dawdle(task: Counting) -> None:
        if slow and stage.attempts[-1].run._counters.open_records:
            time.sleep(4)  # the plugin's source is slow: the broker ends the transaction in the meantime

    script = Script(before_poll=dawdle)
    attempt = stage.start(script, made, kind=Listening)
    remedies = (
        "producer.override.batch.size",
        "producer.override.transaction.timeout.ms",
        "transaction.boundary.interval.ms",
        "transaction.boundary=poll",
    )
    eventually(
        lambda: all(remedy in caplog.text for remedy in remedies),
        90,
        "the task says why it starts again, and what helps",
    )
    slow.clear()
    stage.wait_for(100)
    attempt.run.end()
    attempt.ended()
    stage.exact(100)


def test_the_offsets_topic_is_away_at_the_start(stage: Stage) -> None:
    """The task waits for it, reads nothing in the meantime, and goes on when it is there."""
    made = ready(stage)
    delete_topics(stage.connection, [stage.topics.offsets], Deadline.after(30))
    name = stage.topics.offsets
    eventually(lambda: topic_ids(stage.connection, [name], Deadline.after(30))[name] is None, 30, "the topic is gone")
    script = Script(limit=200)
    attempt = stage.start(script, made)
    eventually(lambda: attempt.run._report._stage == "reading source offsets", 60, "it has come as far as its offsets")
    assert script.instances == []
    assert stage.visible() == []
    create_topics(stage.connection, [TopicSpec(stage.topics.offsets, 3)], Deadline.after(30))
    stage.wait_for(200)
    assert attempt.outcome is None
    stage.exact(200)


@pytest.mark.parametrize("batches", [1, 2])
def test_an_id_that_expired_goes_on_with_a_new_producer(harsh_stage: Stage, batches: int) -> None:
    """Seven idle days, which are four seconds here: the coordinator has forgotten the id.

    The second batch of the transaction is produced when the first one has already failed.
    """
    stage = harsh_stage

    def commit_after_batches(task: Counting) -> None:
        if task.next == 150 and len(script.instances) == 1:
            task.context.wait(1.0)
        boundaries = task.context.transaction_context
        if boundaries is not None and (task.next + script.batch) % (batches * script.batch) == 0:
            boundaries.commit_transaction()

    script = Script(limit=100, before_poll=commit_after_batches)
    attempt = stage.start(script, ready(stage, transaction_boundary="connector"))
    stage.wait_for(100)
    transactional_id = attempt.run._spec.transactional_id
    with Prober(stage.connection) as prober:

        def forgotten() -> bool:
            _, holders = prober.describe_ids([transactional_id])
            return transactional_id in holders and holders[transactional_id].state == ""

        eventually(forgotten, 60, "the coordinator has forgotten the id", pause=0.2)
    script.limit = 300
    stage.wait_for(300)
    assert attempt.outcome is None
    stage.exact(300)
