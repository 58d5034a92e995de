"""Reports to the status and events topics. They are best effort and never delay the data."""

from ringfence.fencing import request_context
from ringfence.fencing.clock import SYSTEM_CLOCK, Clock
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.plain_producers import OnReport, ReportProducer
from ringfence.fencing.topics import events, status


class Reporter:
    """Encodes reports and queues them. Thread-safe; see `ReportProducer`."""

    def __init__(
        self, connection: Connection, status_topic: str, events_topic: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._status_topic = status_topic
        self._events_topic = events_topic
        self._clock = clock
        self._producer = ReportProducer(connection)

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds."""
        return int(self._clock.wall() * 1000)

    def status(self, record: status.StatusRecord, on_delivery: OnReport | None = None) -> None:
        """Queue a status record."""
        key, value = status.encode(record)
        self._producer.send(self._status_topic, key, value, on_delivery)

    def serve(self) -> None:
        """Call what waits for deliveries. Sending does this, too."""
        self._producer.serve()

    def event(self, type_: str, connector: str = "", **fields: object) -> None:
        """Queue an event with these fields and `time_ms`, and the id of the request that this thread works for."""
        fixed: dict[str, object] = {"type": type_, "time_ms": self.now_ms(), "connector": connector}
        if request := request_context.current().id:
            fixed["request"] = request
        key, value = events.encode({**fixed, **fields})
        self._producer.send(self._events_topic, key, value)

    def flush(self, seconds: float) -> None:
        """Wait at most `seconds` until all queued reports are delivered."""
        self._producer.flush(seconds)

    def close(self) -> None:
        """Close the producer. Later reports are dropped."""
        self._producer.close()
