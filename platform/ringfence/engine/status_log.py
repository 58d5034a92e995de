"""Follows the status topic, and keeps its state."""

import logging
import threading
from collections.abc import Callable

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.status import State, StatusFold, StatusState, TaskStatus, apply_to, decode
from ringfence.fencing.topics.topic_log import Isolation, ReadingTurns, TopicLog

log = logging.getLogger(__name__)

_WAIT_SECONDS = 0.5
_AGAIN_SECONDS = 1.0


class StatusLog:
    """`run` is the body of a thread; any thread may read `state`, or wait for what it says.

    The topic is not written in transactions. It is read as uncommitted, like in Kafka Connect, so that an open
    transaction of another client cannot hide what tasks report.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        on_change: Callable[[], None] = lambda: None,
        on_start: Callable[[TaskStatus], None] | None = None,
    ) -> None:
        """on_change: called after each change, on a reader's thread. on_start: called there with the first report of an
        attempt that runs. Both must return at once.
        """
        self._on_start = on_start
        self.state = StatusState()
        self._log = TopicLog(connection, topic, isolation=Isolation.UNCOMMITTED)
        self._on_change = on_change
        self._turns = ReadingTurns()
        self._changed = threading.Condition()
        self._failure: FencingError | None = None

    def run(self, stop: threading.Event) -> None:
        """Follow the topic until `stop`. What prevents it is raised by `check`, and tried again."""
        while not stop.is_set():
            try:
                with self._turns.follow():
                    self._take(self._log.poll(_WAIT_SECONDS))
            except FencingError as error:
                self._failure = error
                stop.wait(_AGAIN_SECONDS)

    def check(self) -> None:
        """Raise what has prevented `run` from reading since the last call."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def refresh(self, deadline: Deadline) -> None:
        """Take in everything up to the current end."""
        with self._turns.read():
            self._take(list(self._log.read_to_end(deadline)))

    def wait_until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until `done` returns true, which is called after each change. Return whether it did in time."""
        with self._changed:
            return self._changed.wait_for(done, seconds)

    def _take(self, records: list[LogRecord]) -> None:
        if not records:
            return
        folding = StatusFold(self.state)
        for record in records:
            entry = decode(record.key, record.value)
            if self._on_start is not None and isinstance(entry, TaskStatus) and entry.state is State.RUNNING:
                last = folding.task(entry.task)
                if last is None or last.key != entry.key or not last.at_work:
                    self._on_start(entry)
            apply_to(folding, entry)
        with self._changed:
            self.state = folding.state
            self._changed.notify_all()
        self._on_change()

    def close(self) -> None:
        self._log.close()
