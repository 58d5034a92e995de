"""A transactional producer. `init` fences its predecessor; after the first doubt it is not used again (invariant 11).

librdkafka keeps one epoch over many transactions, and the broker only checks producer id and epoch. So a commit that is
sent twice may end a later transaction. The producer is therefore spent after every abort, and after every commit unless
it is certain that it was sent once. The owner creates a new one with the same transactional id, and reads the offsets
again.
"""

import logging
import time
from collections.abc import Sequence, Set
from functools import partial

from confluent_kafka import KafkaError, Producer, TopicPartition

from ringfence.connectors.kafka_settings.java_names import MAX_BLOCK
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fatal, Fenced, FencingError, Retriable
from ringfence.fencing.kafka.batch_sender import BatchSender
from ringfence.fencing.kafka.call_timeouts import CallTimeout, call_within
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors, translate, unknown_outcome
from ringfence.fencing.kafka.librdkafka_log import LogEvidence
from ringfence.fencing.kafka.open_transaction import OpenTransaction
from ringfence.fencing.kafka.producer_settings import LINGER_MS, QUEUE_BYTES, transactional_settings
from ringfence.fencing.kafka.safe_close import drop_transactional
from ringfence.fencing.kafka.transaction_pause import Pause
from ringfence.fencing.kafka.transaction_requests import TransactionRequests

log = logging.getLogger(__name__)

# Responses which prove that the broker has handled this request, so that no copy of it is still in flight.
_ANSWERED = {"NO_ERROR", "CONCURRENT_TRANSACTIONS"}
_LAST_SECONDS = 0.2
_OFFSETS_SECONDS = 5.0
_GRACE_SECONDS = 5.0
# After a commit that was fenced, librdkafka takes it for unfinished and refuses each abort at once. Repeating it would
# only keep a core busy until the deadline.
_COMMIT_UNFINISHED = "_CONFLICT"
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_CAUSE_SECONDS = 1.0
_COUNT_SECONDS = 1.0


class TransactionalProducer:
    """A producer with one transactional id and, after `init`, one epoch. Not shared between threads.

    `spent` is true as soon as it must not begin another transaction.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = 60_000,
        queue_bytes: int = QUEUE_BYTES,
        linger_ms: int = LINGER_MS,
        overrides: dict[str, object] | None = None,
        handed_over: bool = False,
    ) -> None:
        """handed_over: another client ends the transactions (`hand_over`). overrides: librdkafka's names."""
        self.transactional_id = transactional_id
        self._timeout_ms = transaction_timeout_ms
        self.spent = False
        self._began = False  # whether a transaction has begun, and neither commit nor abort was requested
        self._evidence = LogEvidence()
        self._pause = Pause()
        self._committed_at = 0.0
        settings = transactional_settings(
            connection,
            transactional_id,
            timeout_ms=transaction_timeout_ms,
            queue_bytes=queue_bytes,
            linger_ms=linger_ms,
        )
        self._connection = connection
        self._sender: BatchSender | None = None
        self._delivery_s = int(str((overrides or {}).get("message.timeout.ms", transaction_timeout_ms))) / 1000
        self._delivery_error: KafkaError | None = None
        if handed_over:  # no commit reports a failed delivery
            settings |= {"on_delivery": self._note_delivery, "delivery.report.only.error": True}
        with kafka_errors("creating the producer"):
            more = {name: value for name, value in (overrides or {}).items() if name != MAX_BLOCK}
            self._producer = Producer({**settings, **more}, logger=self._evidence)
        self.produce = self._producer.produce
        """confluent-kafka's `produce`, unwrapped for speed. Raises BufferError if the queue is full."""

    @property
    def producer_id(self) -> int:
        """The producer id; -1 before `init`."""
        return self._evidence.producer_id

    @property
    def epoch(self) -> int:
        """The epoch; -1 before `init`."""
        return self._evidence.epoch

    def init(self, deadline: Deadline) -> None:
        """Call `init_transactions`, which fences the previous holder of the id and ends its open transaction.

        Retries until `deadline`, then raises `Retriable`. Other errors: see `kafka_errors`.
        """
        doing = f"initialising the producer {self.transactional_id}, transaction timeout {self._timeout_ms} ms"
        # Connect first. Otherwise it looks for the coordinator before it knows a broker, and again only after 0.5 s.
        try:
            with kafka_errors(doing):
                self._producer.list_topics(timeout=max(0.1, deadline.slice(5.0)))
        except Retriable as error:
            log.debug("%s", error)
        while True:
            try:
                with kafka_errors(doing):
                    self._producer.init_transactions(max(0.1, deadline.slice(5.0)))
            except Retriable:
                if deadline.expired:
                    raise
                continue
            self._producer.poll(0)
            return

    def begin(self) -> None:
        """Begin a transaction. The broker learns of it with its first record. May wait some ms, see `Pause`."""
        if self.spent:
            raise Fatal(f"The producer {self.transactional_id} is spent: a new one is needed")
        since_commit = time.monotonic() - self._committed_at
        if self._sender is None or not self._sender.used:
            time.sleep(self._pause.remaining(since_commit))
        with kafka_errors("beginning a transaction"):
            self._producer.begin_transaction()
        if self._sender is not None:
            self._sender.begin(since_commit)  # it waits itself, on its thread
        self._began = True

    @property
    def sender(self) -> BatchSender:
        """Sends encoded batches in the open transaction, which must also have a record of `produce` when it is
        committed. Valid after `init`. Raises `Retriable` if no broker answers.
        """
        if self._sender is None:
            requests = TransactionRequests(self._connection, self.open_transaction, self._timeout_ms)
            self._sender = BatchSender(requests, self.open_transaction, self._delivery_s)
        return self._sender

    def send_offsets(self, offsets: Sequence[tuple[str, int, int]], group_metadata: bytes, deadline: Deadline) -> None:
        """Commit consumer offsets, (topic, partition, next offset) each, with this transaction (KIP-447).

        While librdkafka does not know the group's coordinator, it ignores its time limit here: after a cut connection
        it took ten minutes once. Such a call is abandoned with this producer, and raises `Retriable`.
        """
        positions = [TopicPartition(topic, partition, offset) for topic, partition, offset in offsets]
        send, doing = self._producer.send_offsets_to_transaction, "sending offsets to the transaction"
        while True:
            seconds = max(0.1, deadline.slice(_OFFSETS_SECONDS))
            try:
                with kafka_errors(doing):
                    call_within(seconds + _GRACE_SECONDS, partial(send, positions, group_metadata, seconds), doing)
                return
            except CallTimeout:
                self.spent = True
                raise
            except Retriable:
                if deadline.expired:
                    raise

    def serve(self, seconds: float) -> int:
        """Handle deliveries for up to `seconds`; return the number of events."""
        with kafka_errors("producing"):
            return self._producer.poll(seconds)

    def flush(self, seconds: float) -> int:
        """Wait at most `seconds` for deliveries; return the number of records that are still in flight."""
        with kafka_errors("producing"):
            left: int = self._producer.flush(seconds)
            return left

    def count_partitions(self, topics: Set[str]) -> int:
        """Return how many partitions these topics have together; 1 if no broker says so soon."""
        try:
            with kafka_errors("counting partitions"):
                metadata = self._producer.list_topics(timeout=_COUNT_SECONDS).topics
        except FencingError as error:
            log.debug("%s", error)
            return 1
        return max(1, sum(len(metadata[each].partitions) for each in topics if each in metadata))

    def _note_delivery(self, error: KafkaError | None, _message: object) -> None:
        if error is not None and (self._delivery_error is None or self._delivery_error.code() in _PURGED):
            self._delivery_error = error

    def check_deliveries(self) -> None:
        """Raise the error of the first record that was not delivered, for transactions that are handed over.

        If the broker refuses a record, librdkafka purges the others. Their reports may come first, so this waits for
        the report of the refused one.
        """
        if self._delivery_error is None:
            return
        if self._delivery_error.code() in _PURGED:
            self.flush(_CAUSE_SECONDS)
        raise translate(self._delivery_error, f"writing in a transaction of {self.transactional_id}")

    @property
    def open_transaction(self) -> OpenTransaction:
        """What identifies the transaction to its coordinator. Valid after `init`."""
        return OpenTransaction(self.transactional_id, self.producer_id, self.epoch)

    def hand_over(self, deadline: Deadline) -> OpenTransaction:
        """Flush the open transaction and leave it to another client, which ends it. This producer is spent.

        Raises `Retriable` if the brokers do not acknowledge all records in time, or the error of a failed delivery.
        """
        self.spent = True
        while self.flush(deadline.slice(1.0)):
            self.check_deliveries()
            if deadline.expired:
                raise Retriable(f"{self.queued} records of {self.transactional_id} are not delivered")
        self.check_deliveries()
        self._began = False
        return self.open_transaction

    @property
    def queued(self) -> int:
        """The number of records that the broker has not acknowledged yet."""
        return len(self._producer)

    def commit(self, deadline: Deadline) -> None:
        """Commit the open transaction. Check `spent` afterwards.

        Raises `Abortable` (abort the transaction), `UnknownOutcome` (it may be committed), `Fenced` or `Fatal`.
        """
        sender = self._sender if self._sender is not None and self._sender.used else None
        if sender is not None:
            try:
                sender.flush(deadline)
            except FencingError:
                self.spent = True
                raise
        self._evidence.answers.clear()
        self._began = False
        while True:
            try:
                with kafka_errors(f"committing a transaction of {self.transactional_id}"):
                    # After a retriable error, another call makes librdkafka send the same commit again.
                    self._producer.commit_transaction(max(0.1, deadline.remaining))
                break
            except Retriable as error:
                self.spent = True
                if deadline.expired:
                    raise unknown_outcome(error) from error
            except FencingError:
                self.spent = True
                raise
        self._committed_at = time.monotonic()
        self.serve(0)  # also handles the client's log, which is the evidence
        answers = self._evidence.answers
        if sender is not None:
            if not answers:  # librdkafka sends no EndTxn for a transaction to which it has not added partitions itself
                self.spent = True
                raise Abortable(f"The transaction of {self.transactional_id} has batches, but no source offset")
            self.spent |= sender.doubtful
        self._pause.learn(self._evidence.refused)
        self._evidence.refused = False
        if answers[-1:] != ["NO_ERROR"] or not set(answers) <= _ANSWERED:
            self.spent = True

    def abort(self, deadline: Deadline) -> bool:
        """Abort the open transaction, if possible before `deadline`. Return whether the broker has confirmed it.

        The producer is spent in any case. A transaction that is still open ends with the next `init` of the id, or with
        the broker's timeout. It repeats short calls: after a broken connection with a request in flight, one long call
        would wait for its full timeout, while the next call succeeds at once.
        """
        self.spent = True
        self._began = False
        aborted = self._sender is None or self._sender.abort(deadline)
        while True:
            try:
                with kafka_errors(f"aborting a transaction of {self.transactional_id}"):
                    self._producer.abort_transaction(max(0.1, deadline.slice(1.0)))
                return aborted
            except (Retriable, Fenced, Fatal, Abortable) as error:
                if isinstance(error, Retriable) and error.code != _COMMIT_UNFINISHED and not deadline.expired:
                    continue
                log.info("%s: left to the next producer of this id", error)
                return False

    def close(self) -> None:
        """Drop queued records and close the client.

        An open transaction is aborted if its coordinator answers at once; else it stays open until the next `init` of
        the id. This is not for the broker: if librdkafka is freed while it is about to add partitions to a transaction,
        an assertion fails and ends the process (2.16.0, `txn_req_cnt > 0`).
        """
        if self._began:
            self.abort(Deadline.after(_LAST_SECONDS))
        self.spent = True
        if self._sender is not None:
            self._sender.close()
        self._producer = drop_transactional(self._producer, log)
        self.produce = self._producer.produce
