"""Members of consumer groups: one that only exists to agree on the owner of one partition (KIP-447's generation
fencing), and one that reads the group's input for one transactional producer.

The group metadata is captured inside the rebalance callback, while the member owns the partition (invariant 3), so that
its writes are fenced after it has lost the partition. Metadata that is requested when writing would be the client's
current view, which brokers accept even from a member that owns nothing.
"""

import logging
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, NotLeader, Retriable
from ringfence.fencing.kafka.client_pool import Gate
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import group_members
from ringfence.fencing.kafka.error_translation import kafka_errors, translate

log = logging.getLogger(__name__)

_MAGIC = b"CGMDv2:"
_LOOK_SECONDS: Final = 5.0
_ASK_SECONDS: Final = 15.0
_ANSWER_SECONDS: Final = 10.0
_LONGEST_PATIENCE: Final = 8
"""The longest time that a client gets to join, as a multiple of the first time."""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The proof of membership in a transactional offset commit. Only the client knows its format."""

    raw: bytes
    generation: int

    @classmethod
    def of(cls, raw: bytes) -> "GroupMetadata":
        """Parse the metadata. Raises `NotLeader` for a consumer that never joined (generation -1), which brokers would
        accept.
        """
        if not raw.startswith(_MAGIC):
            raise Fatal("The group metadata has an unknown format: use the pinned version of confluent-kafka")
        (generation,) = struct.unpack_from("<i", raw, len(_MAGIC))
        if generation < 0:
            raise NotLeader("This consumer is not a member of its group (generation -1): its metadata does not fence")
        return cls(raw, generation)


class GroupMembership:
    """One member of `group`, subscribed to the one-partition `topic`. Its owner polls it, on one thread.

    on_gain(metadata): the member owns the partition; called again, with new metadata, after each rebalance that leaves
    it the owner. on_loss(): it no longer owns it. Both run inside `poll`.

    A client that is polled but in no group for `patience_s` is replaced by a new one. Observed after brokers were
    killed or suspended: a client did not find its coordinator for nine minutes, although others did; another one had
    kept its member id for 40 minutes, although the coordinator knew it no more. So the coordinator is asked who is in
    the group.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        topic: str,
        client_id: str,
        on_gain: Callable[[GroupMetadata], None],
        on_loss: Callable[[], None],
        *,
        session_timeout_ms: int = 10_000,
        max_poll_interval_ms: int = 30_000,
        patience_s: float = 30.0,
    ) -> None:
        self._group = group
        self._topic = topic
        self._patience_s = self._first_patience_s = patience_s
        self._joined_at = self._looked_at = self._asked_at = time.monotonic()
        self._missing: str | None = None
        """The member id that the coordinator did not know when it was asked."""
        self._asks = threading.Lock()
        self._connection = connection
        self.replaced = 0
        self._on_gain = on_gain
        self._on_loss = on_loss
        self._owns = False
        self._gate = Gate(f"The member of group {group}")
        settings = connection.librdkafka(
            group_id=group,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            session_timeout_ms=session_timeout_ms,
            # A member learns of a rebalance, as after the loss of another member, from the response to a heartbeat.
            heartbeat_interval_ms=max(500, session_timeout_ms // 10),
            max_poll_interval_ms=max_poll_interval_ms,
            auto_offset_reset="latest",
        )
        settings["client.id"] = client_id
        settings["partition.assignment.strategy"] = "cooperative-sticky"
        self._settings = settings
        self._consumer = self._join()

    def _join(self) -> Consumer:
        with kafka_errors(f"joining group {self._group}"):
            consumer = Consumer(self._settings)
            consumer.subscribe(
                [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )
        return consumer

    @property
    def owns(self) -> bool:
        return self._owns

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is not self._consumer or self._gate.closed:
            return  # `close` also delivers an assignment, which the client ignores; soon there is no metadata either
        with kafka_errors("becoming the owner of the partition"):
            if partitions:
                consumer.incremental_assign(partitions)
                consumer.pause(partitions)
                self._owns = True
            if self._owns:
                self._on_gain(GroupMetadata.of(consumer.consumer_group_metadata()))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            with kafka_errors("giving up the partition"):
                consumer.incremental_unassign(partitions)
            if consumer is self._consumer:
                self._lose()

    def _lose(self) -> None:
        if self._owns:
            self._owns = False
            self._on_loss()

    def poll(self, seconds: float) -> None:
        """Serve the group for up to `seconds`. Without a poll for `max_poll_interval_ms`, a member leaves it."""
        with self._gate, kafka_errors("serving the consumer group"):
            message = self._consumer.poll(seconds)
            self._look()
        trouble = None if message is None else message.error()
        if trouble is not None:
            error = translate(trouble, "serving the consumer group")
            if isinstance(error, Fatal) and trouble.fatal():
                raise error
            log.info("%s", error)

    def _look(self) -> None:
        """Replace a client that has been in no group for too long. The time grows, since the brokers may be down."""
        now = time.monotonic()
        if now - self._looked_at < min(_LOOK_SECONDS, self._first_patience_s):
            return
        self._looked_at = now
        member_id = self._consumer.memberid()
        if member_id and now - self._asked_at >= min(_ASK_SECONDS, self._first_patience_s):
            self._asked_at = now
            threading.Thread(target=self._ask, args=[member_id], name="membership", daemon=True).start()
        if member_id and member_id != self._missing:
            self._joined_at, self._patience_s = now, self._first_patience_s
        elif now - self._joined_at >= self._patience_s:
            alone_s = now - self._joined_at
            log.warning("The client has been in no group for %.0f s, and is replaced: group %s", alone_s, self._group)
            stray, self._consumer = self._consumer, self._join()
            self._joined_at, self.replaced = now, self.replaced + 1
            self._patience_s = min(2 * self._patience_s, _LONGEST_PATIENCE * self._first_patience_s)
            self._lose()
            # Closing may wait for a coordinator that the client does not find.
            threading.Thread(target=stray.close, name="stray-member", daemon=True).start()

    def _ask(self, member_id: str) -> None:
        """Ask the coordinator whether this member is in the group. Without an answer, it is as before."""
        if not self._asks.acquire(blocking=False):
            return
        try:
            members = group_members(self._connection, self._group, Deadline.after(_ANSWER_SECONDS))
            self._missing = None if any(each.member_id == member_id for each in members) else member_id
        except FencingError as error:
            log.info("It is unknown who is in group %s: %s", self._group, error)
        finally:
            self._asks.release()

    def close(self) -> None:
        """Leave the group at once, so that the others need not wait for the session to expire."""
        self._gate.close(lambda: self._consumer.close())


# Too long between two polls: the member joins again by itself. A missing topic may still be created.
_PASSES = {KafkaError._MAX_POLL_EXCEEDED, KafkaError.UNKNOWN_TOPIC_OR_PART}


# A rebalance waits for this, since the transactions of the old owners must end first.
_COMMITTED_S = 20.0


@dataclass(frozen=True, slots=True)
class InputRecord:
    """One committed record of the input. timestamp_ms: -1 if it has none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]] = ()


class InputGroupMember:
    """One member of the group. Its owner polls it on one thread; callbacks run inside `poll` and `close`.

    on_revoke(): the member still owns the partitions; finish the open transaction with `metadata`. on_loss(): another
    member may own them already; abort. Records that `poll` has not returned are dropped: the next owner reads them.

    Offsets are never committed here. No setting can replace `read_committed`: with it the client requests stable
    offsets, so the next owner of a partition only starts when no transaction can still commit offsets of it.

    The assignment is deliberately eager: all partitions are revoked before the group's generation changes, so the open
    transaction ends in the generation in which its records were read. A cooperative member only learns of a revocation
    in the next generation, when commits of the old one are already refused.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        topics: Sequence[str],
        client_id: str,
        on_revoke: Callable[[], None],
        on_loss: Callable[[], None],
        *,
        session_timeout_ms: int = 10_000,
        max_poll_interval_ms: int = 30_000,
        first: Callable[[str, int], int | None] | None = None,
    ) -> None:
        """first: where to begin a partition without a committed offset; None means its first offset."""
        self._first = first
        self._gate = Gate(f"The member of group {group}")
        self.metadata: GroupMetadata | None = None
        """Captured in the rebalance callback; None while the member owns nothing."""
        self._on_revoke = on_revoke
        self._on_loss = on_loss
        self._collected: list[InputRecord] = []
        self._owned: list[tuple[str, int]] = []
        settings = connection.for_reading(
            group_id=group,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=min(1_000, session_timeout_ms // 5),  # its response tells a member of a rebalance
            max_poll_interval_ms=max_poll_interval_ms,
        )
        settings["client.id"] = client_id
        settings["partition.assignment.strategy"] = "range"
        with kafka_errors(f"joining group {group}"):
            self._consumer = connection.create(lambda: Consumer(settings))
            self._consumer.subscribe(
                list(topics),
                on_assign=self._on_partitions_assigned,
                on_revoke=self._on_partitions_revoked,
                on_lost=self._was_lost,
            )

    @property
    def owned(self) -> Sequence[tuple[str, int]]:
        """The topic and number of each partition that the member owns."""
        return self._owned

    def _on_partitions_assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._gate.closed:
            return  # `close` also delivers an assignment, which the client ignores; soon there is no metadata either
        with kafka_errors("taking over partitions of the input"):
            consumer.assign(self._with_start_offsets(consumer, partitions))
            self._owned = [(one.topic, one.partition) for one in partitions]
            self.metadata = GroupMetadata.of(consumer.consumer_group_metadata()) if partitions else None

    def _with_start_offsets(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Add the offset of `first` to partitions without a committed offset."""
        if self._first is None or not partitions:
            return partitions
        for one in self._committed_offsets(consumer, partitions, Deadline.after(_COMMITTED_S)):
            if one.offset < 0:
                start = self._first(one.topic, one.partition)
                for tp in partitions:
                    if start is not None and (tp.topic, tp.partition) == (one.topic, one.partition):
                        tp.offset = start
        return partitions

    @staticmethod
    def _committed_offsets(
        consumer: Consumer, partitions: list[TopicPartition], deadline: Deadline
    ) -> list[TopicPartition]:
        while True:
            try:
                with kafka_errors("reading the committed offsets of the input"):
                    return consumer.committed(partitions, timeout=max(0.1, deadline.slice(5.0)))
            except Retriable:
                if deadline.expired:
                    raise

    def _on_partitions_revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, self._on_revoke)

    def _was_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, self._on_loss)

    def _give_up(self, consumer: Consumer, notify: Callable[[], None]) -> None:
        self._collected.clear()
        with kafka_errors("giving up partitions of the input"):
            try:
                notify()
            finally:
                self.metadata = None
                self._owned = []
                consumer.unassign()

    def poll(self, seconds: float, limit: int) -> list[InputRecord]:
        """Return at most `limit` records of partitions that the member owns now; none after `seconds` without any.

        It takes one message at a time, since a batch of the client may contain records from before a rebalance.
        """
        doing = "reading the input"
        self._collected.clear()
        with self._gate:
            while len(self._collected) < limit:
                with kafka_errors(doing):
                    message = self._consumer.poll(0.0 if self._collected else seconds)
                if message is None:
                    break
                if (error := message.error()) is not None:
                    raised = translate(error, doing)
                    if isinstance(raised, Retriable) or error.code() in _PASSES:
                        log.info("%s", raised)  # the client recovers by itself
                        break
                    raise raised
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                if topic is None or partition is None or offset is None:
                    raise Fatal(f"{doing}: a message without topic, partition or offset")
                _, timestamp = message.timestamp()
                headers: Any = message.headers() or ()
                self._collected.append(
                    InputRecord(topic, partition, offset, message.key(), message.value(), timestamp, headers)
                )
        records, self._collected = self._collected, []
        return records

    def rewind(self, deadline: Deadline) -> None:
        """Return to the stable committed offsets of the owned partitions, after a transaction that did not commit."""
        if not self._owned:
            return
        partitions = [TopicPartition(topic, partition) for topic, partition in self._owned]
        with self._gate:
            offsets = self._committed_offsets(self._consumer, partitions, deadline)
            for one in offsets:
                if one.offset < 0:
                    one.offset = OFFSET_BEGINNING
            with kafka_errors("going back to the committed offsets of the input"):
                self._consumer.assign(offsets)

    def close(self) -> None:
        """Leave the group at once. An open transaction is finished before that, in `on_revoke`."""
        self._gate.close(self._consumer.close)
