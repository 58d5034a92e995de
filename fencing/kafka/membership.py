"""A seat in a consumer group whose only use is to agree on who owns one partition (KIP-447's generation fencing).

The metadata that later fences this member is captured inside the rebalance callback, while the member owns the
partition (invariant 3): asked for at writing time it would be whatever the client believes then, and is accepted even
from a member that owns nothing.
"""

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from ringfence.fencing.errors import Fatal, NotLeader
from ringfence.fencing.kafka.closing import Gate
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.translation import kafka_errors, translate

log = logging.getLogger(__name__)

_MAGIC = b"CGMDv2:"


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """What a transactional offset commit carries to prove membership: opaque to all but the client."""

    raw: bytes
    generation: int

    @classmethod
    def of(cls, raw: bytes) -> "GroupMetadata":
        """Raises `NotLeader` for a consumer that never joined (generation -1): brokers would accept it."""
        if not raw.startswith(_MAGIC):
            raise Fatal("Group metadata in a form that is not known: use the pinned confluent-kafka")
        (generation,) = struct.unpack_from("<i", raw, len(_MAGIC))
        if generation < 0:
            raise NotLeader("This consumer is no member of its group (generation -1): its metadata fences nobody")
        return cls(raw, generation)


class GroupMembership:
    """One member of `group`, subscribed to the one-partition `topic`. Its owner polls it, on one thread.

    on_gain(metadata): the member owns the partition; called again, with new metadata, after each rebalance that leaves
    it the owner. on_loss(): it owns it no more. Both run inside `poll`.
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
    ) -> None:
        self._on_gain = on_gain
        self._on_loss = on_loss
        self._owns = False
        self._gate = Gate(f"The member of group {group}")
        settings = connection.librdkafka(
            group_id=group,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            session_timeout_ms=session_timeout_ms,
            # By the answer to a heartbeat a member learns of a rebalance, such as after the loss of another one.
            heartbeat_interval_ms=max(500, session_timeout_ms // 10),
            max_poll_interval_ms=max_poll_interval_ms,
            auto_offset_reset="latest",
        )
        settings["client.id"] = client_id
        settings["partition.assignment.strategy"] = "cooperative-sticky"
        with kafka_errors(f"joining group {group}"):
            self._consumer = Consumer(settings)
            self._consumer.subscribe(
                [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )

    @property
    def owns(self) -> bool:
        return self._owns

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)
            self._owns = True
        if self._owns:
            self._on_gain(GroupMetadata.of(consumer.consumer_group_metadata()))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            consumer.incremental_unassign(partitions)
            if self._owns:
                self._owns = False
                self._on_loss()

    def poll(self, seconds: float) -> None:
        """Serve the group for up to `seconds`. Not polled for `max_poll_interval_ms`, a member loses its seat."""
        with self._gate, kafka_errors("serving the consumer group"):
            message = self._consumer.poll(seconds)
        trouble = None if message is None else message.error()
        if trouble is not None:
            error = translate(trouble, "serving the consumer group")
            if isinstance(error, Fatal) and trouble.fatal():
                raise error
            log.info("%s", error)

    def close(self) -> None:
        """Leave the group at once, so that the others need not wait for the session to run out."""
        self._gate.close(self._consumer.close)
