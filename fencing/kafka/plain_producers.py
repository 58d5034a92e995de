"""Producers without transactions: for reports, which are best effort so that they never delay the data
(`ReportProducer`); for records that may be written twice, where each call waits for the brokers (`PlainProducer`); and
for worker modes in which tasks are at least once (`IdempotentProducer`).
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ringfence.connectors.api.records import RawHeaders
from ringfence.connectors.sdk.kafka_settings.java_names import MAX_BLOCK
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.kafka.client_pool import ClosedProducer, drop
from ringfence.fencing.kafka.connection import Connection, idempotent_settings
from ringfence.fencing.kafka.error_translation import kafka_errors, translate


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


reports_log = logging.getLogger("ringfence.reports")
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

OnReport = Callable[[bool], None]
"""Gets whether Kafka has the report. Called in any thread that sends reports: it must not send one itself."""

Report = tuple[str, bytes | None, bytes | None, OnReport | None]


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
            return self._connection.create(lambda: Producer(settings, logger=reports_log))

    def send(self, topic: str, key: bytes, value: bytes | None, on_delivery: OnReport | None = None) -> None:
        """Queue one report."""
        with self._lock:
            if isinstance(self._producer, ClosedProducer):
                reports_log.debug("A report to %s is dropped: it comes after the end of reporting", topic)
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
            reports_log.warning("A report to %s is dropped: the queue is full because Kafka does not answer", topic)
            _tell(on_delivery, delivered=False)
        except KafkaException as error:
            self._keep(report, error.args[0], self._refused_reports)

    def _note_delivery(self, on_delivery: OnReport | None, error: KafkaError | None, message: Message) -> None:
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
            reports_log.warning("A report to %s is lost: %s", report[0], error)
            _tell(report[3], delivered=False)

    def _replace(self) -> None:
        old, self._producer = self._producer, ClosedProducer()
        try:
            with kafka_errors("ending a producer of reports"), self._calling_back():
                old.purge()
                old.flush(_LAST_SECONDS)  # the remaining reports are returned in order
        except FencingError as error:
            reports_log.debug("%s", error)
        reports = [*self._returned_reports, *self._refused_reports]  # refused reports are newer than queued ones
        self._returned_reports, self._refused_reports, self._over = [], [], False
        reports_log.warning(
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
            self._producer = drop(self._producer, reports_log)


def _tell(on_delivery: OnReport | None, *, delivered: bool) -> None:
    if on_delivery is not None:
        on_delivery(delivered)


log = logging.getLogger(__name__)


class PlainProducer:
    """An idempotent producer with `acks=all`. Threads must not write with it at the same time."""

    def __init__(self, connection: Connection, partition_of: Callable[[bytes], int] = lambda _: -1) -> None:
        """partition_of: by a record's key; -1 leaves the choice to the partitioner."""
        self._partition_of = partition_of
        with kafka_errors("creating a producer"):
            settings = connection.for_writing(
                linger_ms=0,
                queue_buffering_max_kbytes=4096,
                message_timeout_ms=20_000,
                partitioner="murmur2_random",
            )
            copies = logging.getLogger("ringfence.copies")
            self._producer = connection.create(lambda: Producer(settings, logger=copies))

    def write(
        self,
        topic: str,
        records: Sequence[tuple[bytes, bytes | None]],
        deadline: Deadline,
        last: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Write (key, value) pairs in order. Raises an error unless all are acknowledged before `deadline`.

        last: headers of the last record.
        """
        errors: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        doing = f"writing topic {topic}"

        def make_room() -> None:
            if errors:
                raise translate(errors[0], doing)
            if deadline.expired:
                raise QueueFull(f"{doing}: the brokers did not acknowledge what came before in time")
            self._producer.poll(deadline.slice(0.05))

        with kafka_errors(doing):
            for number, (key, value) in enumerate(records, 1):
                if errors:
                    break
                headers: Any = list(last) if number == len(records) else []
                place = self._partition_of(key)
                queue(
                    partial(self._producer.produce, topic, value, key, place, on_delivery, headers=headers), make_room
                )
            left = self._producer.flush(max(0.01, deadline.remaining))
        if errors:
            raise translate(errors[0], doing)
        if left:
            raise Retriable(f"{doing}: {left} records were not acknowledged in time")

    def close(self) -> None:
        """Drop queued records and close the client."""
        self._producer = drop(self._producer, log)


_ROOM_SECONDS = 0.02

OnDelivery = Callable[[FencingError | None], None]
"""Called with the error of one record, or with None if the broker has acknowledged it."""


class IdempotentProducer:
    """It is idempotent, with `acks=all` and unlimited retries: while it lives, retries neither duplicate nor reorder
    records. (Kafka Connect turns idempotence off and has one request in flight, since brokers before 2.8 need another
    permission for it. That keeps the order, too, but a retry may write a record twice.)

    Not shared between threads: deliveries are reported inside `serve`, on the caller's thread.
    """

    def __init__(self, connection: Connection, overrides: Mapping[str, object] | None = None) -> None:
        """overrides: librdkafka's names. As in Kafka Connect, they may weaken the guarantees."""
        settings = idempotent_settings(connection)
        settings |= overrides or {}
        settings.pop(MAX_BLOCK, None)  # of which librdkafka knows nothing: a call never waits
        if str(settings.get("acks", "all")).lower() not in ("all", "-1"):
            settings["enable.idempotence"] = False
        with kafka_errors("creating the producer"):
            self._producer = connection.create(lambda: Producer(settings, logger=log))

    def reporting(self, report: OnDelivery, check: Callable[[], None]) -> Callable[..., None]:
        """Return a function `produce(topic, value, key, partition, timestamp, headers)` that calls `report` with each
        record's delivery.

        While the queue is full, it waits, serves deliveries, and calls `check`, which raises an error to
        give up.
        """
        produce = self._producer.produce

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            report(None if error is None else translate(error, f"delivering a record to {message.topic()}"))

        def make_room() -> None:
            self.serve(_ROOM_SECONDS)
            check()

        def produce_with_report(
            topic: str,
            value: bytes | None,
            key: bytes | None,
            partition: int = -1,
            timestamp: int = 0,
            headers: RawHeaders | None = None,
        ) -> None:
            pairs: list[tuple[str, str | bytes | None]] | None = list(headers) if headers else None
            queue(lambda: produce(topic, value, key, partition, on_delivery, None, max(0, timestamp), pairs), make_room)

        return produce_with_report

    def serve(self, seconds: float) -> None:
        """Report deliveries; wait at most `seconds` for the first one."""
        with kafka_errors("producing"):
            self._producer.poll(seconds)

    def close(self) -> None:
        """Drop queued records and close the client. Records in flight may still arrive."""
        self._producer = drop(self._producer, log)
