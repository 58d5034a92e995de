"""A transactional producer for one owner at a time: records in, transactions out.

It runs a state machine over sockets, on the thread that calls: no thread of its own, so no hand-over for each request.

What is on its way goes on by itself: the kernel sends, brokers write. Answers are read when the owner calls again.
"""

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ringfence.connectors.api.records import EncodedBatch, RawHeaders
from ringfence.connectors.sdk import egress
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fatal, FencingError, Retriable, UnknownOutcome
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import OpenTransaction
from ringfence.fencing.transactions.batching import Batching
from ringfence.fencing.transactions.broker_connection import (
    Access,
    Address,
    BrokerConnection,
    ConnectionBroken,
    Connections,
    Lane,
    LookUp,
)
from ringfence.fencing.transactions.client import HeldUp
from ringfence.fencing.transactions.error_codes import LOWERED, ErrorCode, name_of
from ringfence.fencing.transactions.messages import (
    NO_TOPIC_ID,
    V2,
    CommitOffsets,
    GroupMember,
    InitProducerId,
    Place,
    Request,
    TopicMetadata,
)
from ringfence.fencing.transactions.record_batches import RecordBatch
from ringfence.fencing.transactions.record_columns import OnWritten, RecordColumns
from ringfence.fencing.transactions.settings import ProducerSettings, access_of, addresses_of
from ringfence.fencing.transactions.state_machine import TOO_LARGE, StateMachine
from ringfence.fencing.transactions.steps import Outgoing, Phase

_LONGEST_WAIT_S: Final = 1.0
_FRESH_S: Final = 0.05
"""For so long after a look at the network, an open connection counts as open."""


class Driver:
    """Not shared between threads, except for `wake`."""

    def __init__(
        self,
        machine: StateMachine,
        bootstrap: Sequence[Address],
        access: Access,
        request_s: float,
        *,
        allows_v2: bool = True,
    ) -> None:
        """request_s: after which a request without an answer is given up, with its connection. allows_v2: whether to
        use transactions v2 where the brokers have them.
        """
        self.machine = machine
        self.last_trouble = ""
        """Why the last connection could not be made, or broke."""
        self.last_trouble_at = 0.0
        self._bootstrap = list(bootstrap)
        self._allows_v2 = allows_v2
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._connections = Connections(
            access, request_s, machine.take_answer, self._note_lost, self._note_opened, self._woken
        )
        self._turn = 0
        self._closed = False

    def run(self, done: Callable[[], bool], deadline: Deadline) -> bool:
        """Send and receive until `done`, or until the deadline. Return which."""
        while True:
            now = time.monotonic()
            for each in self.machine.poll(now):
                self._dispatch(each, now)
            if done():
                return True
            if deadline.expired:
                return False
            self._connections.wait(min(self._pause(now), deadline.remaining))

    def pump(self) -> None:
        """Take the answers that have arrived, and send what can be sent, without waiting."""
        self._connections.wait(0.0)
        now = time.monotonic()
        for each in self.machine.poll(now):
            self._dispatch(each, now)

    def note_ends(self) -> None:
        """Notice the connections that have ended, before they are relied on, unless that was done a moment ago."""
        if time.monotonic() > self._connections.looked_at + _FRESH_S:
            self.pump()

    def wake(self) -> None:
        """Let `run` ask at once whether it is done. For other threads."""
        try:
            self._waker.send(b"\0")
        except OSError:
            return  # it is full, or closed

    def close(self) -> None:
        """End all connections. What is on its way may still arrive. Later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        self._connections.close()
        self._waker.close()
        self._woken.close()

    def _pause(self, polled_at: float) -> float:
        """Return how long to wait for the network. polled_at: what was due then is done; what is due since is not."""
        give_up_at, at = self._connections.next_give_up(), self.machine.next_time(polled_at)
        until = give_up_at if at is None else min(at, give_up_at)
        return max(0.0, min(_LONGEST_WAIT_S, until - time.monotonic()))

    def _dispatch(self, outgoing: Outgoing, now: float) -> None:
        try:
            connection = self._connection_for(outgoing.node, now, _lane_of(outgoing.request))
            version = connection.check_version(outgoing.request)
        except (ConnectionBroken, KeyError) as error:
            self._note_trouble(str(error))
            self.machine.note_unsent(outgoing.number, now)
            return
        except FencingError:
            self.machine.note_unsent(outgoing.number, now)
            raise
        self._connections.send(connection, outgoing.number, outgoing.request, now, version)

    def _connection_for(self, node: int | None, now: float, lane: Lane) -> BrokerConnection:
        if node is not None:
            return self._connections.open(self.machine.addresses[node], now, lane)
        for connection in self._connections:
            if not connection.is_worn_out(now):
                return connection
        places = list(dict.fromkeys((*self._bootstrap, *self.machine.addresses.values())))
        self._turn += 1
        return self._connections.open(places[self._turn % len(places)], now)

    def _note_opened(self, connection: BrokerConnection) -> None:
        ranges = connection.broker.ranges
        has_versions = ranges.get(0, (0, 0))[1] >= 12 and ranges.get(26, (0, 0))[1] >= 5
        has_v2 = has_versions and connection.broker.transaction_version >= V2
        self.machine.use_version(has_v2 and self._allows_v2)

    def _note_trouble(self, why: str) -> None:
        self.last_trouble, self.last_trouble_at = why, time.monotonic()

    def _note_lost(self, connection: BrokerConnection, why: str) -> None:
        self._note_trouble(why)
        now = time.monotonic()
        for pending in connection.in_flight:
            if connection.has_left(pending):
                self.machine.note_unanswered(pending.number, now)
            else:
                self.machine.note_unsent(pending.number, now)


def _lane_of(request: Request) -> Lane:
    """Return the lane that a request goes in. Without an epoch for each transaction, offsets that come after an abort
    would be taken: they stay in order with it.
    """
    return Lane.GROUP if isinstance(request, CommitOffsets) and request.implicit else Lane.ALL


log = logging.getLogger(__name__)

_LAST_SECONDS: Final = 0.2
_WAIT_SECONDS: Final = 0.1
_METADATA_MAGIC: Final = b"CGMDv2:"


class Producer:
    """A producer with one transactional id. Used by one thread at a time; `close` may be called by any."""

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = 60_000,
        overrides: Mapping[str, object] | None = None,
        look_up: LookUp = egress.look_up,
        handed_over: bool = False,
    ) -> None:
        """overrides: librdkafka's names. look_up: returns the addresses to which connections may go. handed_over:
        another client ends the transactions (`hand_over`).
        """
        self.transactional_id = transactional_id
        self._timeout_ms = transaction_timeout_ms
        self._where = connection.bootstrap
        try:
            all_settings = {**connection.settings, **(overrides or {})}
            settings = ProducerSettings.of(all_settings, transaction_timeout_ms)
            access = access_of(connection.client_id, all_settings, look_up)
        except (OSError, ValueError) as error:  # for example, a certificate that is not there
            raise Fatal(f"The settings for {connection.bootstrap} cannot be used: {error}") from error
        self._settings = settings
        self.machine = StateMachine(transactional_id, transaction_timeout_ms, settings.limits)
        self._driver = Driver(
            self.machine, addresses_of(connection.bootstrap), access, settings.request_s, allows_v2=not handed_over
        )
        self._batching = Batching(
            self._add,
            self._leaders_of,
            settings.batch_bytes,
            settings.compression,
            settings.level,
            settings.linger_s,
        )
        self._lock = threading.Lock()
        self._closing = False
        self._gave_up = self._is_handed_over = False
        self._gathers = False
        self._queued_bytes = 0
        self._waits_since: float | None = None
        self._most_queued = settings.buffer_bytes // 2
        self.waiting: Callable[[], None] = lambda: None
        """Called again and again while records wait for room; may raise."""

    # The transaction.

    @property
    def producer_id(self) -> int:
        """The producer id; -1 before `init`."""
        return self.machine.producer_id

    @property
    def epoch(self) -> int:
        """The epoch; -1 before `init`."""
        return self.machine.epoch

    @property
    def transactions_v2(self) -> bool:
        """Whether each transaction has an epoch of its own (KIP-890), so that brokers refuse late requests."""
        return self.machine.implicit

    @property
    def spent(self) -> bool:
        """Whether it can begin no other transaction."""
        return self._gave_up or self._closing or self.machine.phase is Phase.OVER

    @property
    def held_up(self) -> HeldUp | None:
        """Since when the owner waits for the brokers, None if it does not, and what they last said. Thread-safe."""
        since = self._waits_since
        if since is None:
            return None
        refused_at, refusal = self.machine.last_refusal
        words = refusal if refused_at >= self._driver.last_trouble_at else self._driver.last_trouble
        newest = max(refused_at, self._driver.last_trouble_at)
        return since, words if newest >= since and words else "the brokers do not answer"

    def prepare(self, topics: Sequence[str], deadline: Deadline) -> None:
        """Connect, and find the id's coordinator and these topics, which exist. It fences nobody.

        What prevents it is met, and raised, by `init`.
        """
        with self._lock:
            machine = self.machine
            machine.look_up(topics)
            self._run(
                lambda: self._is_over or (machine.knows_coordinator and machine.view.topics.keys() >= {*topics}),
                deadline,
            )

    def init(self, deadline: Deadline) -> None:
        """Fence the previous holder of the id, and end its open transaction. Raises `Retriable` at the deadline."""
        with self._lock:
            self.machine.initialise()
            self._run(lambda: self.machine.phase is not Phase.NEW, deadline)
            self._raise_error()
            if self.machine.phase is not Phase.READY:
                code = self.machine.steps[InitProducerId].code
                trouble = name_of(code) if code else self._driver.last_trouble or "no answer"
                if code == ErrorCode.CONCURRENT_TRANSACTIONS and not self.machine.implicit:
                    trouble = f"{trouble}. {LOWERED}"
                raise Retriable(
                    f"initialising the producer {self.transactional_id}: not in time, {self._where}: {trouble}",
                    name_of(code) if code else None,
                )

    def begin(self) -> None:
        """Begin a transaction. The broker learns of it with its first record."""
        if self.spent:
            self._raise_error()
            raise Fatal(f"The producer {self.transactional_id} is spent: a new one is needed")
        with self._lock:
            self._driver.note_ends()
            self.machine.begin(time.monotonic())
            if self.machine.takes_epoch:
                self._run(lambda: not self.machine.takes_epoch or self._is_over, Deadline.after(self._settings.block_s))
                self._raise_error()

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: RawHeaders | None = None,
        on_written: OnWritten | None = None,
    ) -> None:
        """Write a record in the open transaction. Waits while much is queued. Raises the transaction's error.

        partition: -1 for the partitioner's choice; timestamp: in ms, 0 for now; on_written: called, on the thread that
        uses the producer, once the leader has the record.
        """
        if isinstance(value, str):
            value = value.encode()
        if isinstance(key, str):
            key = key.encode()
        with self._lock:
            if self._queued_bytes + self._batching.bytes > self._most_queued:
                self._make_room()
            self._batching.add(topic, value, key, partition, timestamp, headers, on_written)

    def produce_columns(self, columns: RecordColumns, on_written: Sequence[OnWritten | None] | None = None) -> None:
        """Write many records: no object and no call for each. on_written: None, or one for each.

        Waits while much is queued. Raises the transaction's error.
        """
        with self._lock:
            self._make_room()
            self._batching.add_columns(columns, on_written)

    def encode_ahead(self, columns: RecordColumns) -> None:
        """Encode records that `produce_columns` gets next, while another thread commits the last transaction: for the
        case that no others join them in their batch.
        """
        self._batching.encode_ahead(columns)

    def _make_room(self) -> None:
        most = self._most_queued
        if self._queued_bytes + self._batching.bytes <= most:
            return
        self._batching.flush()
        queues = self.machine.queues
        deadline = Deadline.after(self._settings.block_s)
        while queues.bytes > most:
            if deadline.expired:
                text = f"A transaction of {self.transactional_id}: there is no room for more records"
                raise Abortable(f"{text} after {self._settings.block_s:g} s (max.block.ms)", "_QUEUE_FULL")
            self._run(
                lambda: self._is_over or queues.bytes <= most, Deadline.after(min(_WAIT_SECONDS, deadline.remaining))
            )
            self._raise_error()
            self.waiting()
        self._queued_bytes = queues.bytes

    def send_batches(self, batches: Sequence[EncodedBatch]) -> None:
        """Write batches that are encoded already, in this order."""
        with self._lock:
            for each in batches:
                self._make_room()
                self._batching.add_encoded(each)

    def _add(self, place: Place, batch: RecordBatch) -> None:
        most = self._settings.request_bytes
        if batch.size > most and batch.count == 1:
            text = (
                f"A record for topic {place[0]} takes {batch.size:,} bytes in its batch, and the producer sends at most"
            )
            how = "raise producer.override.max.request.size and the topic's max.message.bytes"
            raise Fatal(f"{text} {most:,} ({TOO_LARGE}): {how}, or leave the record out", TOO_LARGE)
        self.machine.add(place, batch, time.monotonic())
        self._queued_bytes += batch.size
        if not self._gathers:
            self._driver.pump()
            self._raise_error()  # an answer that was just taken may have ended the transaction

    def _complete_batches(self) -> None:
        """Complete all batches, which then go together, with what waits next for the network."""
        self._gathers = True
        try:
            self._batching.flush()
        finally:
            self._gathers = False

    def send_offsets(self, offsets: Sequence[tuple[str, int, int]], group_metadata: bytes, deadline: Deadline) -> None:
        """Commit consumer offsets, (topic, partition, next offset) each, with this transaction (KIP-447), beside the
        records. Raises `Fenced` for a member of an older generation, and `Abortable` without an answer.
        """
        with self._lock:
            self._complete_batches()
            positions = {(topic, partition): offset for topic, partition, offset in offsets}
            self.machine.send_offsets(parse_member(group_metadata), positions)
            self._run(lambda: self.machine.group.done or self.machine.error is not None, deadline)
            self._raise_error()
            if not self.machine.group.done:
                raise Abortable(f"A transaction of {self.transactional_id}: the group's coordinator does not answer")

    def flush(self, seconds: float) -> int:
        """Wait at most `seconds` until everything is written; return the number of records that are not."""
        with self._lock:
            self._complete_batches()
            self._run(lambda: self._is_over or not self.machine.queues.busy, Deadline.after(seconds))
            self._raise_error()
            return self.machine.queues.records

    @property
    def open_transaction(self) -> OpenTransaction:
        """What identifies the transaction to its coordinator. Valid after `init`."""
        return OpenTransaction(self.transactional_id, self.producer_id, self.epoch)

    def hand_over(self, deadline: Deadline) -> OpenTransaction:
        """Write everything, and leave the open transaction to another client, which ends it. This producer is spent.

        Raises `Retriable` if the brokers do not acknowledge all records in time, or the transaction's error.
        """
        self._gave_up = True
        left = self.flush(deadline.remaining)
        if left:
            raise Retriable(f"{left} records of {self.transactional_id} are not delivered")
        self._is_handed_over = True
        return self.open_transaction

    def commit(self, deadline: Deadline) -> None:
        """Commit the open transaction. Check `spent` afterwards.

        Raises `Abortable` (abort the transaction), `UnknownOutcome` (it may be committed), `Fenced` or `Fatal`.
        """
        with self._lock:
            if not self._commit(deadline):
                self._gave_up = True
                text = f"committing a transaction of {self.transactional_id}: no answer in time"
                raise UnknownOutcome(f"{text}; whether the transaction was committed is not known yet")

    def try_commit(self, seconds: float) -> bool:
        """Begin to commit the open transaction. Return whether it is committed within `seconds`; if not, `commit` waits
        for it. Raises as `commit`.
        """
        with self._lock:
            return self._commit(Deadline.after(seconds))

    def _commit(self, deadline: Deadline) -> bool:
        """Return whether the transaction is committed by then. One that is being committed is waited for again."""
        if self.machine.phase is not Phase.COMMITTING:
            self._complete_batches()
            self.machine.commit()
        self._run(lambda: self.machine.phase is Phase.READY or self._is_over, deadline)
        self._raise_error()
        if self.machine.phase is not Phase.READY:
            return False
        self._queued_bytes = 0
        return True

    def abort(self, deadline: Deadline) -> bool:
        """Abort the open transaction, if possible before `deadline`. Return whether the broker has confirmed it.

        The producer can go on after a confirmed abort; otherwise the next `init` of the id ends the transaction.
        """
        with self._lock:
            return self._abort(deadline)

    def _abort(self, deadline: Deadline) -> bool:
        self._batching.clear()
        self._queued_bytes = 0
        if self.machine.phase not in (Phase.OPEN, Phase.COMMITTING):
            return self.machine.phase is Phase.READY
        self.machine.abort()
        try:
            self._run(lambda: self._is_at_rest, deadline)
        except FencingError as error:
            log.info("%s: left to the next producer of this id", error)
        self._gave_up = not self._is_ready
        return self._is_ready

    def close(self) -> None:
        """Abort an open transaction if its coordinator answers at once, and end the connections."""
        self._closing = True
        self._driver.wake()
        with self._lock:
            if self.machine.phase is Phase.OPEN and not self._is_handed_over:
                self._closing = False
                self._abort(Deadline.after(_LAST_SECONDS))
                self._closing = True
            self._driver.close()

    # Topics.

    def count_partitions(self, topic: str) -> int:
        """Return how many partitions the topic has, which the brokers may create. Raises `Abortable` without an
        answer.
        """
        with self._lock:
            return len(self._leaders_of(topic))

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic that it has written to, in hexadecimal digits; "" if the brokers do not tell it."""
        metadata = self.machine.view.topics.get(topic)
        return "" if metadata is None or metadata.id == NO_TOPIC_ID else metadata.id.hex()

    def _leaders_of(self, topic: str) -> Sequence[int]:
        metadata = self.machine.view.topics.get(topic)
        if metadata is None:
            metadata = self._look_up(topic)
        return metadata.leaders

    def _look_up(self, topic: str) -> TopicMetadata:
        self.machine.view.want(topic)
        self._run(lambda: topic in self.machine.view.topics or self._is_over, Deadline.after(self._settings.block_s))
        self._raise_error()
        metadata = self.machine.view.topics.get(topic)
        if metadata is None:
            raise Abortable(
                f"Topic {topic} was not found within {self._settings.block_s:g} s: create it",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name,
            )
        return metadata

    # The loop.

    @property
    def _is_ready(self) -> bool:
        return self.machine.phase is Phase.READY

    @property
    def _is_at_rest(self) -> bool:
        return self.machine.phase in (Phase.READY, Phase.OVER)

    @property
    def _is_over(self) -> bool:
        return self.machine.error is not None or self.machine.phase is Phase.OVER

    def _run(self, done: Callable[[], bool], deadline: Deadline) -> None:
        if self._closing:
            raise Fatal(f"The producer {self.transactional_id} is closed already")
        if self._waits_since is None:
            self._waits_since = time.monotonic()
        if self._driver.run(lambda: self._closing or done(), deadline):
            self._waits_since = None

    def _raise_error(self) -> None:
        if self.machine.error is not None:
            raise self.machine.error


def parse_member(metadata: bytes) -> GroupMember:
    """Parse what confluent-kafka returns as a consumer's group metadata."""
    if not metadata.startswith(_METADATA_MAGIC):
        raise Fatal("The group metadata has an unknown format: use the pinned version of confluent-kafka")
    (generation,) = struct.unpack_from("<i", metadata, len(_METADATA_MAGIC))
    group, member, rest = metadata[len(_METADATA_MAGIC) + 4 :].split(b"\0", 2)
    # A byte tells whether the member has no instance id.
    instance = None if rest[:1] == b"\1" else rest[1:].rstrip(b"\0").decode()
    return GroupMember(group.decode(), generation, member.decode(), instance)
