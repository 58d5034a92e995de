"""How clients are let go."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from confluent_kafka import Producer

from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.kafka.translation import kafka_errors


def drop(producer: Producer, log: logging.Logger) -> None:
    """Drop what is queued, and let the client go. Records in flight may still arrive."""
    try:
        with kafka_errors("closing the producer"):
            producer.purge()
            producer.flush(0)
    except FencingError as error:
        # A fatal error comes out of every call, this one too; whoever met it first has been told.
        log.debug("%s", error)


class Gate:
    """Each call of a consumer goes through it (`with gate:`), one at a time; after `close` none does.

    librdkafka frees a consumer in `close`, whatever other threads are doing with it: measured, a `close` beside a
    `poll` waits for ever. Here it waits for the call under way, and later calls raise `Fatal`. Inside of a call, as
    in a rebalance callback, the same thread may call again.
    """

    def __init__(self, what: str) -> None:
        """`what`: the consumer, for the error."""
        self._what = what
        self._turn = threading.RLock()
        self._closed = False

    def __enter__(self) -> None:
        self._turn.acquire()
        if self._closed:
            self._turn.release()
            raise Fatal(f"{self._what} is closed already")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turn.release()

    def close(self, close: Callable[[], None]) -> None:
        """Call `close` when nothing else is under way; the first time only."""
        with self._turn:
            if not self._closed:
                self._closed = True
                close()
