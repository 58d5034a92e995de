"""Translates the errors of a transactional producer's `produce`."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError

from ringfence.fencing.errors import Fatal
from ringfence.fencing.kafka.error_translation import kafka_errors
from ringfence.fencing.kafka.producer_interface import TransactionalClient

_WRONG_STATE = KafkaError(KafkaError._STATE).name()


@contextmanager
def produce_errors(producer: TransactionalClient, doing: str) -> Iterator[None]:
    """Translate the errors of `producer.produce` inside the block.

    If the transaction has failed in the background, such as by an id that its coordinator has forgotten, `produce` only
    reports a wrong state. `begin` then raises the error itself, usually `Abortable`.
    """
    try:
        with kafka_errors(doing):
            yield
    except Fatal as error:
        if error.code == _WRONG_STATE:
            producer.begin()
        raise
