"""librdkafka's errors as the kernel's: by what the caller does next."""

from concurrent.futures import ThreadPoolExecutor
from traceback import format_exception
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from ringfence.fencing.errors import Abortable, Fatal, Fenced, Retriable
from ringfence.fencing.kafka.error_translation import kafka_errors, translate
from ringfence.fencing.kafka.produce_errors import produce_errors
from ringfence.fencing.kafka.producer_interface import TaskClient


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._FENCED, Fenced),
        (KafkaError.INVALID_PRODUCER_EPOCH, Fenced),
        (KafkaError.ILLEGAL_GENERATION, Fenced),
        (KafkaError._FATAL, Fenced),  # an earlier fatal error, met again without its name: the same question
        (KafkaError._TIMED_OUT, Retriable),
        (KafkaError._TRANSPORT, Retriable),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Fatal),
    ],
)
def test_an_error_says_what_to_do_next(code: int, kind: type[Exception]) -> None:
    error = translate(KafkaError(code), "committing")
    assert type(error) is kind
    assert str(error).startswith("committing: ")
    assert error.code == KafkaError(code).name()


def test_an_error_that_is_not_an_exception_is_translated_too() -> None:
    """confluent-kafka raises KafkaError itself on Python 3.11, if a fatal error comes while callbacks run."""
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(_raise_fenced)
        with pytest.raises(Fenced) as refusal:
            future.result(10)
    assert isinstance(refusal.value.__cause__, KafkaException)
    assert "".join(format_exception(refusal.value))


def _raise_fenced() -> None:
    with kafka_errors("flushing"):
        raise KafkaError(KafkaError._FENCED, "fenced", fatal=True)  # type: ignore[misc]


class _Producer:
    """Produces nothing, with this error; begins nothing, with that one."""

    def __init__(self, code: int, cause: Exception | None) -> None:
        self._code, self._cause = code, cause

    def produce(self) -> None:
        raise KafkaException(KafkaError(self._code))

    def begin(self) -> None:
        if self._cause is not None:
            raise self._cause


@pytest.mark.parametrize(
    ("code", "cause", "kind"),
    [
        (KafkaError._STATE, Abortable("its id is forgotten"), Abortable),
        (KafkaError._STATE, None, Fatal),  # nobody had begun a transaction
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Abortable("not asked for"), Fatal),
    ],
)
def test_a_wrong_state_is_what_has_failed_before(code: int, cause: Exception | None, kind: type[Exception]) -> None:
    producer = _Producer(code, cause)
    with pytest.raises(kind) as error, produce_errors(cast("TaskClient", producer), "producing"):
        producer.produce()
    assert kind is Fatal or error.value is cause
