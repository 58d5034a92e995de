"""Sends encoded record batches in the transaction of a librdkafka producer: one call a batch, not one a record.

librdkafka begins the transaction, produces the source offsets and commits. This adds the batches' partitions to the
same transaction (AddPartitionsToTxn) and sends Produce requests with the same producer id and epoch. So the coordinator
and the partition leaders see one producer, and a fence or a commit holds for both parts. Two rules keep that exact:

- A partition gets records from one of the two only: sequence numbers are counted by producer and partition.
- Each partition has one request in flight. A request without a response is repeated with the same sequence number, and
  the leader appends it once. The producer is then spent after the transaction (invariant 11): a late copy of the
  request cannot join another one, since the next producer has another epoch.

Each error that repeating cannot repair ends the transaction: the owner aborts it, and its producer is spent.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import count
from typing import Final

from confluent_kafka import KafkaError
from kafka.errors import for_code

from ringfence.connectors.api.records import EncodedBatch
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, FencingError
from ringfence.fencing.kafka.batch_head import add_head, next_sequence
from ringfence.fencing.kafka.call_timeouts import call_within
from ringfence.fencing.kafka.coordinator_retries import MOVING
from ringfence.fencing.kafka.error_translation import translate
from ringfence.fencing.kafka.open_transaction import OpenTransaction
from ringfence.fencing.kafka.partition_leaders import (
    MAYBE_WRITTEN,
    NO_LEADER,
    REPEAT,
    UNKNOWN_TOPIC,
    Keyed,
    PartitionLeaders,
    explain,
)
from ringfence.fencing.kafka.transaction_pause import Pause
from ringfence.fencing.kafka.transaction_requests import Place, TransactionRequests

MOST_BYTES: Final = 1_000_000
"""The largest batch, as librdkafka's `message.max.bytes`."""

_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""A request of this size gets no further batch; brokers refuse those larger than `socket.request.max.bytes`."""
_CONCURRENT: Final = 51
"""The transaction before this one is still ending."""
# Of the coordinator.
_SAME_LEADER: Final = frozenset({7, 19, 20})
_ADD_AGAIN: Final = MOVING | {None, _CONCURRENT, UNKNOWN_TOPIC}
_OVER: Final = frozenset({0, 47, 48, 49, 90})
"""Responses to an abort: done, or the id has another epoch, no open transaction, or another producer."""
# Wrong sequence number, state of the transaction, producer id: a new producer can write.
_ABORT: Final = frozenset({45, 46, 48, 49, 59, 120})
_PAUSE_SECONDS: Final = 0.1
# Most refusals are over in a moment: the last transaction's markers, or a partition that is just being added.
_BACKOFF: Final = Backoff(0.001, 0.2)
_WAIT_SECONDS: Final = 0.1
_LEAST_SECONDS: Final = 0.1


class BatchSender:
    """Sends the batches of one producer, in a thread of its own. Only the producer's owner calls it.

    used: whether the open transaction has batches; doubtful: whether a request was repeated without a response.
    """

    def __init__(self, requests: TransactionRequests, transaction: OpenTransaction, timeout_s: float) -> None:
        """timeout_s: how long a batch may take, as `delivery.timeout.ms`."""
        self.used = self.doubtful = False
        self._requests = requests
        self._transaction = transaction
        self._doing = f"writing in a transaction of {transaction.transactional_id}"
        self._timeout_s = timeout_s
        self._leaders = PartitionLeaders(requests, self._pause, self._error)
        self._sequences: dict[Place, int] = {}
        self._added: set[Place] = set()
        self._maybe_open = False
        self._marker_pause = Pause()
        self._ready_at = 0.0
        self._adding_done = threading.Event()
        self._adding_done.set()
        self._stopping = threading.Event()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._job: Future[None] | None = None

    def begin(self, since_commit: float) -> None:
        """Begin the next transaction, so many seconds after the last one was committed."""
        self.used = self._maybe_open = False
        self._added.clear()
        self._ready_at = time.monotonic() + self._marker_pause.remaining(since_commit)

    def send(self, batches: Sequence[EncodedBatch], waiting: Callable[[], None], others: Sequence[Keyed] = ()) -> None:
        """Send these batches as soon as the last ones are delivered. Raises the last ones' error.

        waiting: called again and again during a wait; may raise. others: records that librdkafka will write. Their
        partitions are added to the transaction together with the batches', so that librdkafka's request changes
        nothing, and the coordinator does not let a partition leader wait for it.
        """
        if any(len(each.data) > MOST_BYTES for each in batches):
            raise translate(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "producing")
        self._await_job(waiting)
        self.used = True
        self._adding_done.clear()
        self._job = self._executor.submit(self._deliver, batches, others)

    def flush(self, deadline: Deadline) -> None:
        """Wait until all batches are delivered. Raises their error, or `Abortable` at the deadline."""

        def check() -> None:
            if deadline.expired:
                raise Abortable(f"{self._doing}: the records are not delivered in time")

        self._await_job(check)

    def abort(self, deadline: Deadline) -> bool:
        """Abort the batches' part of the transaction. Return whether the coordinator has confirmed it.

        Requests in flight are awaited first, so that no record arrives after the abort.
        """
        self._stopping.set()
        if (job := self._job) is not None:
            wait([job], max(0.0, deadline.remaining))
        while self._maybe_open:
            try:
                code = self._ask_for_abort(max(_LEAST_SECONDS, deadline.remaining))
            except FencingError:
                return False
            if code in _OVER:
                self._maybe_open = False
            elif deadline.expired or code not in MOVING | {None, _CONCURRENT}:
                return False
            else:
                time.sleep(deadline.slice(_PAUSE_SECONDS))
        return True

    def _ask_for_abort(self, seconds: float) -> int | None:
        codes: list[int | None] = []
        call_within(seconds, lambda: codes.append(self._requests.abort()), self._doing)
        return codes[0]

    def await_adding(self, waiting: Callable[[], None]) -> None:
        """Wait until the partitions of the last `send` are in the transaction, or cannot be added."""
        while not self._adding_done.wait(_WAIT_SECONDS):
            waiting()

    def count_partitions(self, topic: str, waiting: Callable[[], None]) -> int:
        """Return how many partitions the topic has; the brokers may create it. Raises `Abortable` if nobody answers."""
        job = self._executor.submit(lambda: len(self._leaders.find(topic, self._deadline(), again=True)))
        while not job.done():
            wait([job], _WAIT_SECONDS)
            waiting()
        return job.result()

    def close(self) -> None:
        """End the connections. What is in flight may still arrive."""
        self._stopping.set()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._requests.close()

    def _await_job(self, waiting: Callable[[], None]) -> None:
        job = self._job
        if job is None:
            return
        while not job.done():
            wait([job], _WAIT_SECONDS)
            if not job.done():
                waiting()
        self._job = None
        job.result()

    # What follows runs in the executor's thread.

    def _deadline(self) -> Deadline:
        return Deadline.after(self._timeout_s)

    def _deliver(self, batches: Sequence[EncodedBatch], others: Sequence[Keyed]) -> None:
        deadline = self._deadline()
        queues: dict[Place, deque[EncodedBatch]] = {}
        try:
            for each in batches:
                queues.setdefault(self._leaders.choose(each, deadline), deque()).append(each)
            places = (*queues, *(self._leaders.place_of_key(topic, key, deadline) for topic, key in others))
            self._add([place for place in dict.fromkeys(places) if place not in self._added], deadline)
        finally:
            self._adding_done.set()
        failures_in_turn = 0
        while queues:
            failures = self._send_first(queues)
            failures_in_turn = failures_in_turn + 1 if failures else 0
            if failures:
                self._pause(deadline, failures_in_turn, f"records for {_name_of(failures)}")
                for topic in {topic for (topic, _), code in failures.items() if code not in _SAME_LEADER}:
                    self._leaders.find(topic, deadline, again=True)

    def _add(self, places: Sequence[Place], deadline: Deadline) -> None:
        """Add partitions to the transaction, before their first record."""
        if not places:
            return
        if not self._maybe_open:
            time.sleep(max(0.0, self._ready_at - time.monotonic()))
        refused = False
        for failures in count(1):
            self._maybe_open = True
            code = self._requests.add_partitions(places)
            if code == 0:
                if not self._added:
                    self._marker_pause.learn(refused)
                self._added.update(places)
                return
            refused |= code == _CONCURRENT
            if code not in _ADD_AGAIN:
                assert code is not None
                raise self._error(code)
            self.doubtful |= code is None
            self._pause(deadline, failures, f"the transaction coordinator, {explain(code)}")

    def _send_first(self, queues: dict[Place, deque[EncodedBatch]]) -> Mapping[Place, int | None]:
        """Send the first batch of each partition. Return the codes of those that must be sent again."""
        by_leader: dict[int, dict[Place, bytes]] = {}
        sizes: Counter[int] = Counter()
        for place, queue in queues.items():
            leader = self._leaders.leader_of(place)
            if sizes[leader] < _REQUEST_BYTES:  # the others are sent with the next request
                by_leader.setdefault(leader, {})[place] = self._with_head(place, queue[0])
                sizes[leader] += len(queue[0].data)
        failures: dict[Place, int | None] = dict.fromkeys(by_leader.pop(-1, ()), NO_LEADER)
        for place, code in self._requests.produce(by_leader).items():
            if code == 0:  # also for a repeated batch that is written already
                batch = queues[place].popleft()
                self._sequences[place] = next_sequence(self._sequences.get(place, 0), batch.records)
                if not queues[place]:
                    del queues[place]
            elif code in REPEAT:
                self.doubtful |= code in MAYBE_WRITTEN
                failures[place] = code
            else:
                assert code is not None
                raise self._error(code)
        return failures

    def _with_head(self, place: Place, batch: EncodedBatch) -> bytes:
        own = self._transaction
        return add_head(batch, own.producer_id, own.epoch, self._sequences.get(place, 0))

    def _pause(self, deadline: Deadline, failures: int, waits_for: str) -> None:
        """Wait before a request is repeated, after so many failures. Raises `Abortable` if it is not worth it."""
        if deadline.expired:
            raise Abortable(f"{self._doing}: waited {self._timeout_s:.0f} s for {waits_for}")
        if self._stopping.wait(deadline.slice(_BACKOFF.pause(failures))):
            raise Abortable(f"{self._doing}: the transaction is aborted")

    def _error(self, code: int) -> FencingError:
        if code in _ABORT:
            name = for_code(code).__name__
            return Abortable(f"{self._doing}: {name}. The task continues with a new producer", name)
        return translate(KafkaError(code), self._doing)


def _name_of(failures: Mapping[Place, int | None]) -> str:
    (topic, partition), code = next(iter(failures.items()))
    return f"{topic}-{partition}, {explain(code)}"
