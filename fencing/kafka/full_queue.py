"""librdkafka's producers refuse a record while their queue is full, with BufferError: the one way to wait for room."""

from collections.abc import Callable

from ringfence.fencing.errors import Retriable


class QueueFull(Retriable):
    """There was no room in time, so the record was not queued."""


def queue(produce: Callable[[], None], make_room: Callable[[], None]) -> None:
    """Queue a record by `produce`, again and again while the queue is full.

    make_room: called in between. It has to serve the client's delivery reports, since only that makes room, and to
    raise an error, `QueueFull` for instance, once it is too late.
    """
    while True:
        try:
            produce()
            return
        except BufferError:
            make_room()
