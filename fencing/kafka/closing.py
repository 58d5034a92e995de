"""How clients are let go."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from confluent_kafka import Producer

from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.kafka.translation import kafka_errors


class Closed:
    """Stands where a producer stood that was let go: nothing is queued in it, and each call raises `Fatal`."""

    def __len__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*_args: object, **_more: object) -> NoReturn:
            raise Fatal(f"The producer is closed already: {name}")

        return refuse


def drop(producer: Producer | Closed, log: logging.Logger) -> Any:
    """Drop what is queued, and let the client go; what takes its place. Records in flight may still arrive.

    The client ends, with its threads and connections, when its last reference goes: the caller keeps none. So a call on
    another thread, such as a commit that was given up, ends first. `Producer.close` would free it beneath that call.
    """
    if isinstance(producer, Closed):
        return producer
    try:
        with kafka_errors("closing the producer"):
            producer.purge()
            producer.flush(0)
    except FencingError as error:
        # A fatal error comes out of every call, this one too; whoever met it first has been told.
        log.debug("%s", error)
    return Closed()


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
