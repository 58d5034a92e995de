"""A leader's term: the right to write the config topic, and the only way to do so (invariant 3).

Two things fence an older leader: the epoch of the transactional id `connect-cluster-${group.id}` (KIP-618), and the
group generation (KIP-447): every transaction also commits the group's offset on the config topic, with the metadata
that was captured inside the rebalance callback while this member owned the partition.

A term begins with four steps. 1: capture the metadata. 2: `init_transactions`, and end hanging transactions of the id's
older epochs on the config topic (invariant 13), which the marker of this leader's next commit would make visible. 3:
commit one transaction with the metadata before anything else. 4: read the config topic to its end; what this process
has read of it before need not be read again (`StatePublisher`). Then it writes, and checks each write's precondition at
the end of the log.

That check reads nothing as long as only this leader writes: what it has committed it knows. A write is decided on the
state in memory, and before the commit the offsets of its records tell whether they stand right behind that state. If
not, the transaction is aborted, the log is read to its end, and the write is decided again. The commit proves that no
other leader has written: it would be fenced. So what writes nothing, or is refused, is decided again after a read.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ringfence.fencing import request_context
from ringfence.fencing.clock import SYSTEM_CLOCK, Clock, Deadline
from ringfence.fencing.errors import Abortable, Fenced, FencingError, NotLeader, Retriable
from ringfence.fencing.ids import leader_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.membership import GroupMetadata
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.leader.older_epochs import end_leftovers
from ringfence.fencing.offsets.ledger_keys import log_partition_of
from ringfence.fencing.request_context import RequestContext
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_encryption import NO_KEYS, EncryptionWatch, Vault, encrypt
from ringfence.fencing.topics.config_log import ConfigLog, StatePublisher
from ringfence.fencing.topics.config_record import ConnectorScopedRecord
from ringfence.fencing.topics.config_records import ConfigRecord, encode
from ringfence.fencing.topics.leader_stamps import Stamper
from ringfence.fencing.transactions.producer import Producer

log = logging.getLogger(__name__)

_PRODUCER_SETTINGS = {"socket.timeout.ms": 5000}
"""A leader's requests are small: a broker that has not answered for so long is asked again on another connection."""
_OFFSETS_S = 10.0
"""A coordinator that has not taken the group's offset by then is asked by another producer."""
_GENERATION_OVER = {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}


class _Moved(Abortable):
    """Somebody else has written behind the state that the write was decided on."""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record for another topic in the same transaction: altered source offsets."""

    topic: str
    key: bytes
    value: bytes | None


class Term:
    """One term of a leader, used by one thread. All calls raise `NotLeader` once the term is over."""

    def __init__(
        self,
        connection: Connection,
        group_id: str,
        config_topic: str,
        metadata: GroupMetadata,
        owns: Callable[[], bool],
        clock: Clock = SYSTEM_CLOCK,
        *,
        stamper: Stamper | None = None,
        vault: Vault = NO_KEYS,
        on_write: Callable[[], None] = lambda: None,
        publisher: StatePublisher | None = None,
    ) -> None:
        """owns: whether this member still owns the partition, as far as it knows. stamper: records who wrote a record.
        vault: encrypts and decrypts configurations. on_write: called when `state` contains what was written. publisher:
        of the process's states, which need not be read again; None for one of the term's own.
        """
        self._on_write = on_write
        self._stamper = stamper
        self._connection = connection
        self._group_id = group_id
        self._topic = config_topic
        self._metadata = metadata
        self._owns = owns
        self._clock = clock
        self._producer: Producer | None = None
        self._wrote_as = -1  # the producer id of the last transaction: the next one's may be another
        self._claimed = False  # a claim that failed halfway leaves a producer that must not write
        self._vault = vault
        own = None if publisher is not None else StatePublisher(config_topic, vault, watches_encryption=True)
        # Where somebody else follows the topic, there is hardly ever anything to read.
        self._log = ConfigLog(connection, config_topic, publisher=publisher or own, keep_reader=own is not None)
        self._over: str | None = None
        self.in_doubt = False
        """Whether the last write failed after its commit was sent, and its outcome has not been read yet."""

    @property
    def state(self) -> ClusterState:
        """The config topic as this term last read it."""
        return self._log.state

    @property
    def encryption(self) -> EncryptionWatch:
        """Which configurations must be written again, encrypted with another key."""
        return self._log.publisher.encryption

    @property
    def generation(self) -> int:
        """The group generation that the term writes under."""
        return self._metadata.generation

    def recapture(self, metadata: GroupMetadata) -> None:
        """Continue with the new group generation, after a rebalance in which this member kept the partition."""
        self._metadata = metadata

    def claim(self, deadline: Deadline) -> ClusterState:
        """Do steps 2 to 4. Repeated after each unknown outcome, which it then settles."""
        while True:
            self._check()
            try:
                if self._producer is not None:
                    self._producer.close()
                self._claimed = False
                self._producer = Producer(
                    self._connection, leader_transactional_id(self._group_id), overrides=_PRODUCER_SETTINGS
                )
                self._producer.init(deadline)  # 2
                self._end_leftovers(self._producer, deadline)
                self._transaction((), deadline)  # 3
                state = self._log.refresh(deadline, self._wrote_as)  # 4
                self._claimed = True
                return state
            except Fenced as error:
                self._on_fenced(error)
            except (Abortable, Retriable) as error:
                log.info("Claiming the config topic: %s", error)
            if deadline.expired:
                raise Retriable("The config topic could not be claimed in time; it is tried again")

    def _end_leftovers(self, producer: Producer, deadline: Deadline) -> None:
        """End hanging transactions. Raises `Retriable` if this may not end one: the message says how an
        operator can.
        """
        accesses = [AdminAccess("the worker's credentials", self._connection)]
        while True:
            self._check()
            try:
                end_leftovers([self._topic], {producer.producer_id: producer.epoch}, accesses)
                return
            except Retriable as error:
                if deadline.expired:
                    raise
                log.info("Claiming the config topic: %s", error)

    def _check(self) -> None:
        if self._over is not None:
            raise NotLeader(self._over)
        if not self._owns():
            raise self._not_leader("This worker no longer owns the config topic's partition: another one leads")

    def _not_leader(self, reason: str) -> NotLeader:
        self._over = reason
        return NotLeader(reason)

    def _on_fenced(self, error: Fenced) -> None:
        """Invariant 5: a leader of an older generation resigns; one that still owns the partition claims it again."""
        if error.code in _GENERATION_OVER or not self._owns():
            raise self._not_leader(f"This worker no longer leads: {error}") from error
        log.warning("Fenced while still the owner of the config topic; claiming it again: %s", error)

    def _transaction(
        self, records: Sequence[ConfigRecord | TopicRecord], deadline: Deadline, expected: int | None = None
    ) -> list[LogRecord]:
        """Commit the records, and return those of the config topic.

        expected: the offset that the first of them must get, None for any. Raises `_Moved` if it gets another one.
        """
        producer = self._producer
        assert producer is not None, "claim first"
        producer.begin()
        self._wrote_as = producer.producer_id
        offsets: list[int] = []
        own_records: list[LogRecord] = []
        try:
            at = self._log.position
            for record in records:
                if isinstance(record, TopicRecord):
                    producer.produce(record.topic, record.value, record.key, log_partition_of(record.key))
                    continue
                key, value = encode(encrypt(record, self._vault))
                stamp = () if self._stamper is None else self._stamper.headers(self._topic, key, value, at)
                headers = [*stamp, *request_context.to_headers(self._request_of(record))]
                producer.produce(
                    self._topic,
                    value,
                    key,
                    0,
                    headers=headers,
                    on_written=lambda _, offset, __: offsets.append(offset),
                )
                own_records.append(LogRecord(0, (expected or 0) + len(own_records), key, value, -1, headers))
                at += 1
            # Beside the records: a member of an older generation aborts them.
            position = [(self._topic, 0, self._log.position)]
            producer.send_offsets(position, self._metadata.raw, Deadline.after(deadline.slice(_OFFSETS_S), self._clock))
            if expected is not None:
                producer.flush(deadline.remaining)
                if offsets != [each.offset for each in own_records]:
                    raise _Moved(f"The records of a write are not at offset {expected} of topic {self._topic}")
            self.in_doubt = self.in_doubt or bool(records)
            producer.commit(deadline)
        except FencingError:
            if not producer.spent:
                producer.abort(Deadline.after(3, self._clock))
            raise
        return own_records

    def _request_of(self, record: ConfigRecord) -> RequestContext:
        """Return the request that it is written for. What follows from an earlier one by itself carries that one's, so
        that compaction does not lose it.
        """
        request = request_context.current()
        if request.id or not isinstance(record, ConnectorScopedRecord):
            return request
        return self.state.connector(record.owner).request

    def write(
        self,
        decide: Callable[[ClusterState], Sequence[ConfigRecord | TopicRecord]],
        deadline: Deadline,
        doubt: Deadline | None = None,
    ) -> tuple[ClusterState, int]:
        """Write what `decide` returns for the state at the end of the log, in one transaction.

        Returns the state after it, and the offset of the last record (-1 if there was nothing to write). Records of
        other topics must come with at least one of the config topic, which shows whether they were committed. `decide`
        raises `Conflict` or `Invalid` if the caller's expectation no longer holds. An unknown outcome is settled by
        claiming again and reading the log: nobody else writes it within a term, so records after the old end are ours.
        Raises `NotLeader` or `Retriable`; then nothing was written, unless `in_doubt` is true.

        doubt: how long to try to settle an unknown outcome, if longer than the write's deadline.
        """
        reads = False
        while True:
            self.in_doubt = False
            self._check()
            if self._producer is None or self._producer.spent or not self._claimed:
                self.claim(deadline)
            records, expected = self._decide(decide, deadline, reads=reads)
            if not records:
                return self.state, -1
            if deadline.expired:
                raise Retriable("The time ran out before anything was written: nothing was changed")
            before = self.state.end
            try:
                own_records = self._transaction(records, deadline, expected)
            except _Moved as error:
                log.info("A write to the config topic is decided again: %s", error)
                reads = True
                continue
            except Fenced as error:
                self._on_fenced(error)
                trouble: FencingError = error
            except (Abortable, Retriable) as error:
                trouble = error
            else:
                after = self._after(own_records, expected, deadline)
                self.in_doubt = False
                self._on_write()
                return after, after.end - 1
            log.info("A write to the config topic is in doubt: %s", trouble)
            after = self.claim(doubt or deadline if self.in_doubt else deadline)
            self.in_doubt = False
            if after.end > before:
                return after, after.end - 1

    def _after(self, own_records: Sequence[LogRecord], expected: int | None, deadline: Deadline) -> ClusterState:
        """Return the state with the records that were just committed."""
        if expected is not None:
            try:
                return self._log.take_own(own_records)
            except Retriable as error:
                log.info("What was written to the config topic is read from it: %s", error)
        return self.refresh(deadline)

    def _decide(
        self,
        decide: Callable[[ClusterState], Sequence[ConfigRecord | TopicRecord]],
        deadline: Deadline,
        *,
        reads: bool,
    ) -> tuple[list[ConfigRecord | TopicRecord], int | None]:
        """Return the records to write, and the offset that the first must get: None if the log was read for them."""
        expected = None if reads else self._log.version.next_offset
        if expected is not None:
            try:
                if records := list(decide(self.state)):
                    return records, expected
            except Exception as error:  # noqa: BLE001 - a refusal that holds at the log's end is raised again
                log.debug("A write is decided again at the end of the log: %s", error)
        return list(decide(self.refresh(deadline))), None

    def refresh(self, deadline: Deadline) -> ClusterState:
        """Return the state at the end of the config topic, with all that this term has committed."""
        return self._log.refresh(deadline, self._wrote_as)

    def close(self) -> None:
        """Close the clients."""
        self._over = self._over or "The term is over"
        if self._producer is not None:
            self._producer.close()
        self._log.close()
