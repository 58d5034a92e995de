"""librdkafka's errors as the kernel's: by what the caller does next."""

from concurrent.futures import ThreadPoolExecutor
from traceback import format_exception

import pytest
from confluent_kafka import KafkaError, KafkaException

from ringfence.fencing.errors import Fatal, Fenced, Retriable
from ringfence.fencing.kafka.error_translation import kafka_errors, translate


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
