"""Follows a connector's ledger on a thread of the task, up to the record that the task has just written."""

import logging
import threading
import time
from collections.abc import Callable

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fatal, FencingError, Retriable
from ringfence.fencing.fetching.raw_reader import Entry, PartitionFollower
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_offsets import end_offsets
from ringfence.fencing.offsets.ledger_keys import LEDGER_PARTITION
from ringfence.fencing.offsets.source_offsets import SourceOffsets, encode_value
from ringfence.fencing.share.ledger import Ledger

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 0.1


class LedgerTail:
    """Read `ledger`, and wait for its changes, only under `condition`."""

    def __init__(self, connection: Connection, topic: str, connector: ConnectorName, offsets: SourceOffsets) -> None:
        """offsets: the connector's committed offsets, after which reading continues.

        Everything before their positions is decided, so no open claim begins there.
        """
        self.condition = threading.Condition()
        self.ledger = Ledger(connector)
        self._connection = connection
        self._topic = topic
        self.topic_id = offsets.topic_id
        self.ledger.begin((row.key, encode_value(row.offset)) for row in offsets.own())
        self._position = offsets.positions.get(LEDGER_PARTITION, 0)
        self._trouble: FencingError | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._follow, name=f"ledger-{connector}", daemon=True)
        self._thread.start()

    @property
    def position(self) -> int:
        """Return the next offset: everything before it has been applied."""
        return self._position

    def wait(self, test: Callable[[], bool], seconds: float) -> bool:
        """Wait under `condition` until the test is true. Raises `Abortable` if the ledger can no longer be read."""
        with self.condition:
            result = self.condition.wait_for(lambda: self._trouble is not None or test(), seconds)
            if self._trouble is not None:
                raise Abortable(f"The ledger cannot be followed: {self._trouble}", self._trouble.code)
            return result

    def catch_up(self, deadline: Deadline) -> None:
        """Read up to the current end (invariant 6). Raises `Retriable`."""
        end = end_offsets(self._connection, self._topic, [LEDGER_PARTITION], deadline)[LEDGER_PARTITION]
        if not self.wait(lambda: self._position >= end, deadline.remaining):
            raise Retriable(
                f"The ledger in topic {self._topic} could not be read to its end in time: at {self._position} of {end}"
            )

    @property
    def broken(self) -> bool:
        """Return whether it has stopped after an error, and must be replaced."""
        return self._trouble is not None

    def _follow(self) -> None:
        follower: PartitionFollower | None = None
        while not self._closing:
            try:
                if follower is None:
                    follower = PartitionFollower(self._connection, self._topic, LEDGER_PARTITION, self._position)
                entries = follower.poll()
                if follower.position != self._position:
                    self._take(entries, follower.position)
            except Retriable as error:
                log.info("%s", error)
                time.sleep(_AGAIN_SECONDS)
            except Exception as error:
                # The root of the thread: `wait` raises the error, and the attempt is restarted.
                log.exception("The ledger in topic %s cannot be followed", self._topic)
                self._lose(error if isinstance(error, FencingError) else Fatal(str(error)))
                break
        if follower is not None:
            follower.close()

    def _take(self, entries: list[Entry], position: int) -> None:
        with self.condition:
            for entry in entries:
                if entry.committed is None:
                    self.ledger.take(entry.producer_id, entry.offset, entry.key, entry.value)
                else:
                    self.ledger.decide(entry.producer_id, entry.committed)
            self._position = position
            self.condition.notify_all()

    def _lose(self, error: FencingError) -> None:
        with self.condition:
            self._trouble = error
            self.condition.notify_all()

    def close(self) -> None:
        self._closing = True
        self._thread.join(5)
