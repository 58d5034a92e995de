"""One life of a transactional producer: from `init` (which fences the life before) to the first doubt (invariant 11).

librdkafka keeps one epoch over many transactions, and the broker checks only producer id and epoch: a commit that was
sent twice may end a later transaction. So a life ends after every abort, and after every commit that is not shown to
have been sent once; the owner makes a new one with the same transactional id, and reads the offsets again.
"""

import logging
import re
import time
from collections.abc import Sequence
from functools import partial

from confluent_kafka import KafkaError, Producer, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fatal, Fenced, FencingError, Retriable
from ringfence.fencing.kafka.call_limits import Unanswered, call_within
from ringfence.fencing.kafka.closing import drop
from ringfence.fencing.kafka.open_transaction import OpenTransaction
from ringfence.fencing.kafka.pacing import Pause
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.translation import kafka_errors, translate, unknown_outcome

log = logging.getLogger(__name__)

_END_TXN = re.compile(r"EndTxn returned (\S+)")
# Answers that prove that the broker has dealt with that very request: no copy of it is still under way.
_ANSWERED = {"NO_ERROR", "CONCURRENT_TRANSACTIONS"}
_REFUSED = "AddPartitionsToTxn response"  # said only where the answer is an error: "concurrent transactions"
_LAST_SECONDS = 0.2
_OFFSETS_SECONDS = 5.0
_GRACE_SECONDS = 5.0
# Where a commit met the fence, librdkafka holds it for unfinished, and says so to each abort at once: to ask again
# would only keep a core busy until the deadline.
_COMMIT_UNFINISHED = "_CONFLICT"
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_CAUSE_SECONDS = 1.0
_PID = re.compile(r"Acquired PID\{Id:(\d+),Epoch:(\d+)\}")


class _Evidence:
    """Reads librdkafka's own account of its requests: the only place that says whether EndTxn was sent again.

    It stands where the client expects a `logging.Logger` and has the one method that is called: librdkafka says some 25
    lines a transaction, and real log records of them cost a tenth of the CPU of small transactions.
    """

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.refused = False
        self.producer_id = -1
        self.epoch = -1

    def log(self, level: int, form: str, *parts: object) -> None:
        """`logging.Logger.log`; the last part is librdkafka's line."""
        line = str(parts[-1])
        if "EndTxn returned" in line:
            found = _END_TXN.search(line)
            self.answers.append(found.group(1) if found else line)
        elif _REFUSED in line:
            self.refused = True
        elif "Acquired PID" in line:
            found = _PID.search(line)
            if found:
                self.producer_id, self.epoch = int(found.group(1)), int(found.group(2))
        elif level >= logging.WARNING:
            log.debug(form, *parts)


class TransactionalProducer:
    """A producer with one transactional id and, once `init` returned, one epoch. Not shared between threads.

    `spent` is true as soon as this life may not begin another transaction.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = 60_000,
        queue_bytes: int = 32 * 1024 * 1024,
        linger_ms: int = 5,
        overrides: dict[str, object] | None = None,
        handed_over: bool = False,
    ) -> None:
        """`handed_over`: the transaction is to be ended elsewhere (`hand_over`)."""
        self.transactional_id = transactional_id
        self._timeout_ms = transaction_timeout_ms
        self.spent = False
        self._began = False  # a transaction whose end has not been asked for
        self._evidence = _Evidence()
        self._pause = Pause()
        self._committed_at = 0.0
        settings = connection.librdkafka(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            acks="all",
            debug="eos",
            linger_ms=linger_ms,
            # "Concurrent transactions" is answered for a moment after each commit; the default waits 100 ms it out.
            retry_backoff_ms=5,
            retry_backoff_max_ms=1000,
            queue_buffering_max_kbytes=queue_bytes // 1024,
            # The limit above counts bytes of values; of small records librdkafka's own 200 bytes each are most of it.
            # A shorter queue also stays in the processor's caches: a third more records/s than with ten times as many.
            queue_buffering_max_messages=100_000,
            batch_size=256 * 1024,
            compression_type="none",
            partitioner="murmur2_random",  # Java's, so that keys go where other writers put them
        )
        settings["message.timeout.ms"] = transaction_timeout_ms
        self._undelivered: KafkaError | None = None
        if handed_over:  # no commit will tell of a failed delivery
            settings |= {"on_delivery": self._note_delivery, "delivery.report.only.error": True}
        with kafka_errors("creating the producer"):
            self._producer = Producer({**settings, **(overrides or {})}, logger=self._evidence)
        self.produce = self._producer.produce
        """confluent-kafka's own `produce`, unwrapped, on the hot path. Raises BufferError where the queue is full."""
        self.serve = self._producer.poll

    @property
    def producer_id(self) -> int:
        """-1 before `init`."""
        return self._evidence.producer_id

    @property
    def epoch(self) -> int:
        """-1 before `init`."""
        return self._evidence.epoch

    def init(self, deadline: Deadline) -> None:
        """`init_transactions`: fences the holder before and ends its open transaction. Retries till `deadline`."""
        doing = f"initialising the producer {self.transactional_id}, transaction timeout {self._timeout_ms} ms"
        # Connects first: else the coordinator is asked for before there is a broker to ask, and again 0.5 s later.
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
        """Open a transaction; the broker hears of it with the first record. May wait some milliseconds, see `Pause`."""
        if self.spent:
            raise Fatal(f"The producer {self.transactional_id} is spent: a new one is needed")
        if wait := self._pause.remaining(time.monotonic() - self._committed_at):
            time.sleep(wait)
        with kafka_errors("beginning a transaction"):
            self._producer.begin_transaction()
        self._began = True

    def send_offsets(self, offsets: Sequence[tuple[str, int, int]], group_metadata: bytes, deadline: Deadline) -> None:
        """Commit consumer offsets, (topic, partition, next offset) each, with this transaction (KIP-447).

        librdkafka keeps no time here while nobody tells it the group's coordinator: ten minutes were seen, after a cut
        connection. Such a call is given up, and this life with it; `Retriable` then, too.
        """
        positions = [TopicPartition(topic, partition, offset) for topic, partition, offset in offsets]
        send, doing = self._producer.send_offsets_to_transaction, "sending offsets to the transaction"
        while True:
            seconds = max(0.1, deadline.slice(_OFFSETS_SECONDS))
            try:
                with kafka_errors(doing):
                    call_within(seconds + _GRACE_SECONDS, partial(send, positions, group_metadata, seconds), doing)
                return
            except Unanswered:
                self.spent = True
                raise
            except Retriable:
                if deadline.expired:
                    raise

    def flush(self, seconds: float) -> int:
        """Wait for deliveries; the number of records still under way."""
        with kafka_errors("producing"):
            left: int = self._producer.flush(seconds)
            return left

    def _note_delivery(self, error: KafkaError | None, _message: object) -> None:
        if error is not None and (self._undelivered is None or self._undelivered.code() in _PURGED):
            self._undelivered = error

    def check_deliveries(self) -> None:
        """Raises what became of the first record that was not delivered. For transactions that are handed over.

        One refused record makes librdkafka purge the others, whose reports may come first: the refusal is waited for.
        """
        if self._undelivered is None:
            return
        if self._undelivered.code() in _PURGED:
            self.flush(_CAUSE_SECONDS)
        raise translate(self._undelivered, f"writing in a transaction of {self.transactional_id}")

    @property
    def open_transaction(self) -> OpenTransaction:
        """What names the transaction to its coordinator, after `init`."""
        return OpenTransaction(self.transactional_id, self.producer_id, self.epoch)

    def hand_over(self, deadline: Deadline) -> OpenTransaction:
        """Flush the open transaction and leave it to another client, which ends it. This life ends.

        Raises `Retriable` where the brokers do not take all of it in time, and what failed to be delivered.
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
        """Records not yet acknowledged by the broker."""
        return len(self._producer)

    def commit(self, deadline: Deadline) -> None:
        """Commit the open transaction. Afterwards `spent` says whether this life has to end.

        Raises `Abortable` (abort it), `UnknownOutcome` (the commit may have happened), `Fenced`, `Fatal`.
        """
        self._evidence.answers.clear()
        self._began = False
        while True:
            try:
                with kafka_errors(f"committing a transaction of {self.transactional_id}"):
                    # librdkafka asks for the same commit again when called again after a retriable error.
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
        self._drain()
        self._pause.learn(self._evidence.refused)
        self._evidence.refused = False
        answers = self._evidence.answers
        if answers[-1:] != ["NO_ERROR"] or not set(answers) <= _ANSWERED:
            self.spent = True

    def _drain(self) -> None:
        with kafka_errors("reading the client's log"):
            self._producer.poll(0)

    def abort(self, deadline: Deadline) -> bool:
        """Abort the open transaction, as far as that is possible before `deadline`; this life ends with it in any case.

        True where the broker has confirmed it.

        Short calls, repeated: one long call hangs for all its time when a request was in flight on a broken connection,
        and the next succeeds at once. What is left open is ended by the next life's `init`, or by the broker's timeout.
        """
        self.spent = True
        self._began = False
        while True:
            try:
                with kafka_errors(f"aborting a transaction of {self.transactional_id}"):
                    self._producer.abort_transaction(max(0.1, deadline.slice(1.0)))
                return True
            except (Retriable, Fenced, Fatal, Abortable) as error:
                if isinstance(error, Retriable) and error.code != _COMMIT_UNFINISHED and not deadline.expired:
                    continue
                log.info("%s: left to the next producer of this id", error)
                return False

    def close(self) -> None:
        """Drop what is queued and let the client go.

        An open transaction is aborted where its coordinator answers at once, and else stays open until the next `init`
        of the id. Not for the broker's sake: where librdkafka is freed while it is about to add partitions to a
        transaction, an assertion fails and ends the process (2.16.0, `txn_req_cnt > 0`).
        """
        if self._began:
            self.abort(Deadline.after(_LAST_SECONDS))
        self.spent = True
        self._producer = drop(self._producer, log)
        self.produce, self.serve = self._producer.produce, self._producer.poll
