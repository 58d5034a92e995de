"""The status topic, followed and folded."""

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.topics.status import StatusState, apply, decode
from ringfence.fencing.topics.topic_log import Isolation, TopicLog


class StatusLog:
    """Polled by one thread; `state` may be read by any.

    Nobody writes this topic in transactions. Read as uncommitted, a transaction that a stranger leaves open on it does
    not hide what tasks report (Kafka Connect reads it the same way).
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self.state = StatusState()
        self._log = TopicLog(connection, topic, isolation=Isolation.UNCOMMITTED)

    def poll(self) -> None:
        """Take in what is there, without waiting."""
        for record in self._log.poll(0):
            self._take(record)

    def refresh(self, deadline: Deadline) -> None:
        """Take in everything up to the end as it is now."""
        for record in self._log.read_to_end(deadline):
            self._take(record)

    def _take(self, record: LogRecord) -> None:
        self.state = apply(self.state, decode(record.key, record.value))

    def close(self) -> None:
        self._log.close()
