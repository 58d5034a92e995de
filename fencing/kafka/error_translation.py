"""Translates librdkafka's errors, including its private codes, to the kernel's error classes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, cast

from confluent_kafka import KafkaError, KafkaException

from ringfence.fencing.errors import Fatal, Fenced, FencingError, Retriable

_FENCED = {
    KafkaError._FENCED,
    # An earlier fatal error of this client, without its name. With transactions it is nearly always a fence, so it is
    # treated as one (invariant 5). If it recurs, the task fails in the end.
    KafkaError._FATAL,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.FENCED_INSTANCE_ID,
}
_OLD_GENERATION = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID}
_UNANSWERED = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.REQUEST_TIMED_OUT}
# Retriable in Kafka's protocol, but not marked so by librdkafka's admin client: a broker restarts, or a leader or
# coordinator moves. An unknown topic is not here, since callers treat it differently.
_PASSING = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError._NOENT,  # librdkafka: no leaders known, while it looks them up again
}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}
_RAISED: Final = cast("type[BaseException]", KafkaError)
"""Raised itself in some cases, see `kafka_errors`."""


def translate(error: KafkaError, doing: str) -> FencingError:
    """Return the kernel's error for a Kafka error. doing: the action, for the message."""
    code, name = error.code(), error.name()
    text = f"{doing}: {error.str()} ({name})"
    if code in _FENCED:
        return Fenced(text, name)
    if code in _OLD_GENERATION:
        return Fenced(f"{text}: this member's generation of the group is over", name)
    if code in _DENIED:
        return Fatal(f"{text}. Grant the missing permission, then restart", name)
    if error.fatal():
        return Fatal(text, name)
    if error.retriable() or code in _UNANSWERED or code in _PASSING:
        return Retriable(text, name)
    return Fatal(text, name)


@contextmanager
def kafka_errors(doing: str) -> Iterator[None]:
    """Translate the errors of confluent-kafka inside the block.

    `flush` and `poll` also raise fatal errors, sometimes wrapped in a SystemError if a callback was running.

    Before Python 3.12, confluent-kafka (2.15, 2.16) saves only the value of what is raised while callbacks run, and
    raises that later. If no handler has seen the exception, the value may be its text, which gives a SystemError ("not
    a BaseException subclass"). So a callback needs this around its calls. After a fatal error, the value may be a
    KafkaError, which is raised although it is not a BaseException: `except BaseException` does not catch it, and the
    future of an executor's thread never ends.
    """
    broken: KafkaError | None = None
    try:
        yield
    except _RAISED as error:
        broken = cast("KafkaError", error)
    except KafkaException as error:
        raise translate(_kafka_error(error), doing) from error
    except SystemError as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, KafkaException):
            raise translate(_kafka_error(cause), doing) from error
        raise
    if broken is not None:
        raise translate(broken, doing) from KafkaException(broken)


def _kafka_error(error: KafkaException) -> KafkaError:
    first = error.args[0] if error.args else None
    return first if isinstance(first, KafkaError) else KafkaError(KafkaError._FAIL, str(error))
