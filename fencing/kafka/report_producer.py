"""A producer for reports: best effort, so that it never delays the data."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.kafka.client_pool import ClosedProducer, drop
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors


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


log = logging.getLogger("ringfence.reports")
"""Never itself the subject of reports (`topics.connector_logs`): that would never end."""

_OVER: Final = frozenset(
    {
        KafkaError._FATAL,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
"""After one of these errors, an idempotent producer sends nothing more. They mostly come from killed brokers."""
_TIMEOUT_SECONDS: Final = 60.0
_LAST_SECONDS: Final = 1.0
_MOST_KEPT: Final = 1000

OnDelivery = Callable[[bool], None]
"""Gets whether Kafka has the report. Called in any thread that sends reports: it must not send one itself."""

Report = tuple[str, bytes | None, bytes | None, OnDelivery | None]


class ReportProducer:
    """An idempotent, non-transactional producer. Thread-safe.

    A report that cannot be queued or delivered is logged and dropped: the data does not wait for it. A failed client is
    replaced, and the new one sends the old one's queued reports in the same order.
    """

    def __init__(self, connection: Connection, timeout_s: float = _TIMEOUT_SECONDS) -> None:
        """timeout_s: after how long a report that Kafka does not take is dropped."""
        self._connection = connection
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._serving = threading.local()
        self._over = False
        self._returned_reports: list[Report] = []
        self._refused_reports: list[Report] = []
        self._producer: Producer | ClosedProducer = self._create()

    def _create(self) -> Producer:
        with kafka_errors("creating the reports' producer"):
            settings = self._connection.for_writing(
                linger_ms=2,
                queue_buffering_max_kbytes=2048,
                message_timeout_ms=int(self._timeout_s * 1000),
                partitioner="murmur2_random",
            )
            return self._connection.create(lambda: Producer(settings, logger=log))

    def send(self, topic: str, key: bytes, value: bytes | None, on_delivery: OnDelivery | None = None) -> None:
        """Queue one report."""
        with self._lock:
            if isinstance(self._producer, ClosedProducer):
                log.debug("A report to %s is dropped: it comes after the end of reporting", topic)
                return
            self._queue((topic, key, value, on_delivery))
            self._serve()

    def serve(self) -> None:
        """Call what waits for deliveries. `send` does this, too."""
        with self._lock:
            if not isinstance(self._producer, ClosedProducer):
                self._serve()

    def _serve(self) -> None:
        with self._calling_back() as outermost:
            if not outermost:
                return
            self._producer.poll(0)
        if self._over:
            self._replace()

    @contextmanager
    def _calling_back(self) -> Iterator[bool]:
        """Yield whether no caller of this thread serves callbacks already. A callback may log, a handler may report
        what is logged, and the client aborts the process if it is polled within a callback.
        """
        outermost = not getattr(self._serving, "now", False)
        self._serving.now = True
        try:
            yield outermost
        finally:
            self._serving.now = not outermost

    def _queue(self, report: Report) -> None:
        topic, key, value, on_delivery = report
        try:
            self._producer.produce(topic, value, key, on_delivery=partial(self._note_delivery, on_delivery))
        except BufferError:
            log.warning("A report to %s is dropped: the queue is full because Kafka does not answer", topic)
            _tell(on_delivery, delivered=False)
        except KafkaException as error:
            self._keep(report, error.args[0], self._refused_reports)

    def _note_delivery(self, on_delivery: OnDelivery | None, error: KafkaError | None, message: Message) -> None:
        if error is None:
            _tell(on_delivery, delivered=True)
        else:
            self._keep(
                (message.topic() or "", message.key(), message.value(), on_delivery), error, self._returned_reports
            )

    def _keep(self, report: Report, error: KafkaError, reports: list[Report]) -> None:
        """Keep a report of a failed client for the next one. It may have been sent already, and is then there twice."""
        if error.code() in _OVER and len(reports) < _MOST_KEPT:
            self._over = True
            reports.append(report)
        else:
            log.warning("A report to %s is lost: %s", report[0], error)
            _tell(report[3], delivered=False)

    def _replace(self) -> None:
        old, self._producer = self._producer, ClosedProducer()
        try:
            with kafka_errors("ending a producer of reports"), self._calling_back():
                old.purge()
                old.flush(_LAST_SECONDS)  # the remaining reports are returned in order
        except FencingError as error:
            log.debug("%s", error)
        reports = [*self._returned_reports, *self._refused_reports]  # refused reports are newer than queued ones
        self._returned_reports, self._refused_reports, self._over = [], [], False
        log.warning(
            "The producer of reports could send no more, and is replaced; %d reports are sent again", len(reports)
        )
        self._producer = self._create()
        for report in reports:
            self._queue(report)

    def flush(self, seconds: float) -> None:
        """Wait at most `seconds` until the queued reports are delivered."""
        producer = self._producer  # another thread may close it in the meantime
        if isinstance(producer, ClosedProducer):
            return
        with kafka_errors("sending reports"), self._calling_back():
            producer.flush(seconds)
        with self._lock:
            if self._over and not isinstance(self._producer, ClosedProducer):
                self._replace()
                with self._calling_back():
                    self._producer.flush(seconds)

    def close(self) -> None:
        """Drop queued reports (call `flush` first), and close the client. Later reports are dropped."""
        with self._lock:
            self._producer = drop(self._producer, log)


def _tell(on_delivery: OnDelivery | None, *, delivered: bool) -> None:
    if on_delivery is not None:
        on_delivery(delivered)
