"""A topic read from its beginning to a known end, and followed from there: config, status, offsets, events.

"The end" is the read_uncommitted end offset, asked when `read_to_end` is called, so after whatever init or fence it
must cover (invariant 6); committed records are read until the position has passed it. The last stable offset lags
behind a commit's answer, so neither watermarks nor an end-of-partition event alone may say "this was the end".
"""

from collections.abc import Callable, Iterator, Mapping

from fencing.clock import Deadline
from fencing.errors import Retriable
from fencing.kafka.admin import end_offsets, topic_identity
from fencing.kafka.consumer import LogRecord, PartitionReader
from fencing.kafka.settings import Connection

__all__ = ["LogRecord", "TopicLog"]


_HURRIED_MS = 5


class TopicLog:
    """All partitions of one topic, committed records only. Not shared between threads."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        start: Mapping[int, int] | None = None,
        *,
        deadline: Deadline | None = None,
    ) -> None:
        """`start`: first offset per partition, 0 where none is given. Waits for the topic till `deadline`."""
        self._connection = connection
        self.topic = topic
        self.topic_id, self.partitions = topic_identity(connection, topic, deadline or Deadline.after(30))
        first = start or {}
        self._reader = PartitionReader(connection, topic, {p: first.get(p, 0) for p in self.partitions})

    @property
    def positions(self) -> dict[int, int]:
        """The next offset per partition; it moves past aborted records and markers, too."""
        return dict(self._reader.positions)

    def poll(self, timeout: float, limit: int = 500) -> list[LogRecord]:
        """What has come since, in the order of each partition; empty after `timeout` seconds without a record."""
        return self._reader.poll(timeout, limit)

    def read_to_end(
        self, deadline: Deadline, give_up: Callable[[], bool] = lambda: False, limit: int = 1000
    ) -> Iterator[LogRecord]:
        """Every committed record before the end as it stands now.

        Raises `Retriable` where the end is not reached in time (an open transaction of somebody else may hold it back:
        the message says how far it got). `give_up` is asked between reads.
        """
        ends = end_offsets(self._connection, self.topic, self.partitions, deadline)
        if _passed(self._reader.positions, ends):
            return
        # A reader of its own: on the one that follows the topic, the broker holds an empty fetch back for half a
        # second, and with it the news that the position has passed the last marker.
        hurried = PartitionReader(self._connection, self.topic, self._reader.positions, fetch_wait_ms=_HURRIED_MS)
        try:
            while not _passed(hurried.positions, ends):
                if deadline.expired:
                    behind = {p: (hurried.positions[p], end) for p, end in ends.items() if hurried.positions[p] < end}
                    raise Retriable(
                        f"The end of topic {self.topic} was not reached in time: partition: (position, end) {behind}. "
                        "A transaction that is still open holds it back, or the broker is slow; it is tried again"
                    )
                if give_up():
                    return
                yield from hurried.poll(deadline.slice(0.1), limit)
        finally:
            self._reader.move(hurried.positions)
            hurried.close()

    def close(self) -> None:
        self._reader.close()


def _passed(positions: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return all(positions[partition] >= end for partition, end in ends.items())
