"""Follows the status topic, and keeps its state."""

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.status import StatusState, apply, decode
from ringfence.fencing.topics.topic_log import Isolation, TopicLog


class StatusLog:
    """One thread polls it; any thread may read `state`.

    The topic is not written in transactions. It is read as uncommitted, like in Kafka Connect, so that an open
    transaction of another client cannot hide what tasks report.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self.state = StatusState()
        self._log = TopicLog(connection, topic, isolation=Isolation.UNCOMMITTED)

    def poll(self) -> None:
        """Take in the available records, without waiting."""
        for record in self._log.poll(0):
            self._take(record)

    def refresh(self, deadline: Deadline) -> None:
        """Take in everything up to the current end."""
        for record in self._log.read_to_end(deadline):
            self._take(record)

    def _take(self, record: LogRecord) -> None:
        self.state = apply(self.state, decode(record.key, record.value))

    def close(self) -> None:
        self._log.close()
