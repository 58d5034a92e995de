"""A leader's term: the right to write the config topic, and its only way to do so (invariant 3).

Two things fence an older leader: the epoch of the transactional id `connect-cluster-${group.id}` (KIP-618), and the
group generation (KIP-447): every transaction also commits the group's offset on the config topic, with the metadata
that was captured inside the rebalance callback while this member owned the partition.

A term: 1 the metadata, 2 `init_transactions`, and what hangs of the id's older epochs on the config topic is ended
(invariant 13): the marker of this leader's next commit would make it visible, 3 one transaction with the metadata
before anything else, 4 the config topic to the end. Then writes, each with a precondition that is checked at the end of
the log.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ringfence.fencing.clock import SYSTEM_CLOCK, Clock, Deadline
from ringfence.fencing.errors import Abortable, Fenced, FencingError, NotLeader, Retriable
from ringfence.fencing.ids import leader_transactional_id
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.membership import GroupMetadata
from ringfence.fencing.kafka.producer import TransactionalProducer
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.translation import kafka_errors
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.leader.older_epochs import end_leftovers
from ringfence.fencing.offsets.ledger_keys import log_partition_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.fencing.topics.config_records import ConfigRecord, encode
from ringfence.fencing.topics.sealing import NO_KEYS, SealWatch, Vault, seal
from ringfence.fencing.topics.stamps import Stamper

log = logging.getLogger(__name__)

_GENERATION_OVER = {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record for another topic in the same transaction: source offsets moved by hand."""

    topic: str
    key: bytes
    value: bytes | None


class Term:
    """One term of one leader. One thread uses it. Raises `NotLeader` once the term is over, for ever after."""

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
        on_records: Callable[[Sequence[LogRecord]], None] = lambda _: None,
        vault: Vault = NO_KEYS,
    ) -> None:
        """`owns`: whether this member still owns the partition, as far as it knows. stamper: says who wrote a record.
        on_records: sees all records of the config topic, each once. vault: encrypts and decrypts configurations.
        """
        self._stamper = stamper
        self._connection = connection
        self._group_id = group_id
        self._topic = config_topic
        self._metadata = metadata
        self._owns = owns
        self._clock = clock
        self._producer: TransactionalProducer | None = None
        self._claimed = False  # a claim that failed midway leaves a producer that may not write
        self._vault = vault
        self.seals = SealWatch(vault)
        """Which configurations are to be written again, under another key."""

        def look(records: Sequence[LogRecord]) -> None:
            self.seals.look(records)
            on_records(records)

        self._log = ConfigLog(connection, config_topic, on_records=look, vault=vault)
        self._over: str | None = None
        self.in_doubt = False
        """The last write failed after its commit was asked for, and nobody has looked what became of it."""

    @property
    def state(self) -> ClusterState:
        """The config topic as this term last read it."""
        return self._log.state

    @property
    def generation(self) -> int:
        """The group generation that the term writes under."""
        return self._metadata.generation

    def recapture(self, metadata: GroupMetadata) -> None:
        """A rebalance left this member the owner: go on under its new generation."""
        self._metadata = metadata

    def claim(self, deadline: Deadline) -> ClusterState:
        """Steps 2 to 4. Repeated after each doubt; then it also tells what became of the transaction in doubt."""
        while True:
            self._check()
            try:
                if self._producer is not None:
                    self._producer.close()
                self._claimed = False
                self._producer = TransactionalProducer(
                    self._connection, leader_transactional_id(self._group_id), linger_ms=0
                )
                self._producer.init(deadline)  # 2
                self._end_leftovers(self._producer, deadline)
                self._transaction((), deadline)  # 3
                state = self._log.refresh(deadline, self._producer.producer_id)  # 4
                self._claimed = True
                return state
            except Fenced as error:
                self._on_fenced(error)
            except (Abortable, Retriable) as error:
                log.info("Claiming the config topic: %s", error)
            if deadline.expired:
                raise Retriable("The config topic could not be claimed in time; it is tried again")

    def _end_leftovers(self, producer: TransactionalProducer, deadline: Deadline) -> None:
        """Raises `Retriable` where something hangs and may not be ended: the message says how a person can."""
        ways = [AdminAccess("the worker's credentials", self._connection)]
        while True:
            self._check()
            try:
                end_leftovers([self._topic], {producer.producer_id: producer.epoch}, ways)
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
        """Invariant 5: a leader of an older generation stands down; one that still owns the partition claims again."""
        if error.code in _GENERATION_OVER or not self._owns():
            raise self._not_leader(f"This worker no longer leads: {error}") from error
        log.warning("Fenced while still the owner of the config topic; claiming it again: %s", error)

    def _transaction(self, records: Sequence[ConfigRecord | TopicRecord], deadline: Deadline) -> None:
        producer = self._producer
        assert producer is not None, "claim first"
        producer.begin()
        try:
            with kafka_errors("writing the config topic"):
                at = self._log.position
                for record in records:
                    if isinstance(record, TopicRecord):
                        producer.produce(record.topic, record.value, record.key, log_partition_of(record.key))
                        continue
                    key, value = encode(seal(record, self._vault))
                    stamp = () if self._stamper is None else self._stamper.headers(self._topic, key, value, at)
                    producer.produce(self._topic, value, key, 0, None, None, 0, list(stamp))
                    at += 1
            producer.send_offsets([(self._topic, 0, self._log.position)], self._metadata.raw, deadline)
            self.in_doubt = self.in_doubt or bool(records)
            producer.commit(deadline)
        except FencingError:
            if not producer.spent:
                producer.abort(Deadline.after(3, self._clock))
            raise

    def write(
        self,
        decide: Callable[[ClusterState], Sequence[ConfigRecord | TopicRecord]],
        deadline: Deadline,
        doubt: Deadline | None = None,
    ) -> tuple[ClusterState, int]:
        """Write what `decide` answers for the state at the end of the log, in one transaction.

        Returns the state with it, and the offset of the last record (-1 where there was nothing to write). Records of
        other topics must come with at least one of the config topic, which tells whether they were committed. `decide`
        raises `Conflict` or `Invalid` where the caller's expectation no longer holds. An unknown outcome is resolved by
        claiming again and reading the log: within a term nobody else writes it, so what stands behind the old end is
        ours. Raises `NotLeader` or `Retriable`; nothing was written then, unless `in_doubt` says otherwise.

        `doubt`: how long to go on finding out, where that is worth more time than the write itself.
        """
        while True:
            self.in_doubt = False
            self._check()
            if self._producer is None or self._producer.spent or not self._claimed:
                self.claim(deadline)
            state = self.refresh(deadline)
            if deadline.expired:
                raise Retriable("The time ran out before anything was written: nothing was changed")
            records = list(decide(state))
            if not records:
                return state, -1
            before = state.end
            try:
                self._transaction(records, deadline)
            except Fenced as error:
                self._on_fenced(error)
                trouble: FencingError = error
            except (Abortable, Retriable) as error:
                trouble = error
            else:
                after = self.refresh(deadline)
                self.in_doubt = False
                return after, after.end - 1
            log.info("A write to the config topic is in doubt: %s", trouble)
            after = self.claim(doubt or deadline if self.in_doubt else deadline)
            self.in_doubt = False
            if after.end > before:
                return after, after.end - 1

    def refresh(self, deadline: Deadline) -> ClusterState:
        """The state as of the end of the config topic, with all that this term has committed."""
        return self._log.refresh(deadline, -1 if self._producer is None else self._producer.producer_id)

    def close(self) -> None:
        """Let the clients go."""
        self._over = self._over or "The term is over"
        if self._producer is not None:
            self._producer.close()
        self._log.close()
