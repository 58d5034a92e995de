"""A life of a producer ends with the first commit that is not shown to have been sent once (invariant 11)."""

from collections.abc import Sequence
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fatal, Fenced, UnknownOutcome
from ringfence.fencing.kafka import transactional_producer as module
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.librdkafka_log import LogEvidence
from ringfence.fencing.kafka.transactional_producer import TransactionalProducer

PREFIX = "[thrd:main]: TxnCoordinator/1: "


class Client:
    """Stands where librdkafka's producer stands: answers, and says what it did as librdkafka does."""

    def __init__(self, settings: object, logger: LogEvidence) -> None:
        self.logger = logger
        self.lines: Sequence[str] = ()
        self.raised: list[KafkaError] = []
        self.calls = 0
        self.produce = None

    def poll(self, seconds: float) -> int:
        for line in self.lines:
            self.logger.log(7, "%s [%s]", "EOS", PREFIX + line)
        self.lines = ()
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self.calls += 1
        if self.raised:
            raise KafkaException(self.raised.pop(0))

    def begin_transaction(self) -> None:
        pass


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> TransactionalProducer:
    monkeypatch.setattr(module, "Producer", Client)
    return TransactionalProducer(Connection("nowhere:1"), "id")


def client(producer: TransactionalProducer) -> Client:
    return cast(Client, producer._producer)


def ended(answer: str) -> str:
    return f"EndTxn returned {answer} in 1 attempt"


@pytest.mark.parametrize("answers", [["NO_ERROR"], ["CONCURRENT_TRANSACTIONS", "NO_ERROR"]])
def test_a_commit_whose_requests_were_all_answered_leaves_the_life_as_it_is(
    producer: TransactionalProducer, answers: list[str]
) -> None:
    client(producer).lines = [ended(answer) for answer in answers]
    producer.commit(Deadline.after(1))
    assert not producer.spent
    producer.begin()


@pytest.mark.parametrize(
    "answers",
    [
        [],
        ["_TRANSPORT"],
        ["_TIMED_OUT", "NO_ERROR"],
        ["_TRANSPORT", "NO_ERROR"],
        ["NO_ERROR", "_TRANSPORT"],
        ["_DESTROY", "NO_ERROR"],
        ["NOT_COORDINATOR", "NO_ERROR"],
        ["SOMETHING_NEW", "NO_ERROR"],
    ],
)
def test_a_commit_that_may_have_been_sent_twice_ends_the_life_although_it_was_answered_with_yes(
    producer: TransactionalProducer, answers: list[str]
) -> None:
    client(producer).lines = [ended(answer) for answer in answers]
    producer.commit(Deadline.after(1))
    assert producer.spent
    with pytest.raises(Fatal, match="spent"):
        producer.begin()


def test_a_line_that_is_not_understood_is_no_proof(producer: TransactionalProducer) -> None:
    client(producer).lines = ["EndTxn returned"]
    producer.commit(Deadline.after(1))
    assert producer.spent


def test_the_evidence_of_one_commit_does_not_count_for_the_next(producer: TransactionalProducer) -> None:
    client(producer).lines = [ended("NO_ERROR")]
    producer.commit(Deadline.after(1))
    assert not producer.spent
    producer.commit(Deadline.after(1))  # of which the client says nothing
    assert producer.spent


def test_a_commit_that_was_asked_for_again_ends_the_life(producer: TransactionalProducer) -> None:
    client(producer).raised = [KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True)]
    client(producer).lines = [ended("NO_ERROR")]
    producer.commit(Deadline.after(1))
    assert client(producer).calls == 2
    assert producer.spent


@pytest.mark.parametrize(
    "error, raised",
    [
        (KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True), UnknownOutcome),
        (KafkaError(KafkaError._FENCED, "fenced", fatal=True), Fenced),
        (KafkaError(KafkaError.INVALID_TXN_STATE, "torn", txn_requires_abort=True), Abortable),
    ],
)
def test_a_commit_that_fails_ends_the_life(
    producer: TransactionalProducer, error: KafkaError, raised: type[Exception]
) -> None:
    client(producer).raised = [error] * 5
    with pytest.raises(raised):
        producer.commit(Deadline.after(0))
    assert producer.spent


def test_the_producers_id_and_epoch_are_read_from_what_the_client_says(producer: TransactionalProducer) -> None:
    assert (producer.producer_id, producer.epoch) == (-1, -1)
    client(producer).lines = ["Acquired PID{Id:4711,Epoch:3} (TransactionalId)"]
    client(producer).poll(0)
    assert (producer.producer_id, producer.epoch) == (4711, 3)
