"""Closes clients safely."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from confluent_kafka import Producer

from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.kafka.error_translation import kafka_errors


class ClosedProducer:
    """Replaces a closed producer: its queue is empty, and each call raises `Fatal`."""

    def __len__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*_args: object, **_more: object) -> NoReturn:
            raise Fatal(f"The producer is closed already: {name}")

        return refuse


def drop(producer: Producer | ClosedProducer, log: logging.Logger) -> Any:
    """Drop queued records and release the client; return its replacement. Records in flight may still arrive.

    The client ends, with its threads and connections, when its last reference is gone, so the caller must not keep one.
    A call on another thread ends first; `Producer.close` would free the client during it.
    """
    if isinstance(producer, ClosedProducer):
        return producer
    try:
        with kafka_errors("closing the producer"):
            producer.purge()
            producer.flush(0)
    except FencingError as error:
        # After a fatal error, every call raises it, also this one. The first call has reported it.
        log.debug("%s", error)
    return ClosedProducer()


class Gate:
    """Serialises the calls of a consumer (`with gate:`), and refuses them after `close`.

    librdkafka frees a consumer in `close`, even while another thread uses it: `close` during a `poll` was seen to wait
    forever. Here, `close` waits for the current call, and later calls raise `Fatal`. Inside a call, such as in a
    rebalance callback, the same thread may call again.
    """

    def __init__(self, what: str) -> None:
        """what: the consumer's name in errors."""
        self._what = what
        self._turn = threading.RLock()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` has been called, also while it runs."""
        return self._closed

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
        """Call `close` when no other call is running. Later calls do nothing."""
        with self._turn:
            if not self._closed:
                self._closed = True
                close()
