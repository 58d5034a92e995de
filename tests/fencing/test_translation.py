"""librdkafka's errors as the kernel's: by what the caller does next."""

import pytest
from confluent_kafka import KafkaError

from ringfence.fencing.errors import Fatal, Fenced, Retriable
from ringfence.fencing.kafka.translation import translate


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
