"""A member of a consumer group that only exists to agree on the owner of one partition (KIP-447's generation fencing).

The group metadata is captured inside the rebalance callback, while the member owns the partition (invariant 3), so that
its writes are fenced after it has lost the partition. Metadata that is requested when writing would be the client's
current view, which brokers accept even from a member that owns nothing.
"""

import logging
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from ringfence.fencing.errors import Fatal, NotLeader
from ringfence.fencing.kafka.client_pool import Gate
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors, translate

log = logging.getLogger(__name__)

_MAGIC = b"CGMDv2:"
_LOOK_SECONDS: Final = 5.0
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

    A client that is polled but in no group for `patience_s` is replaced by a new one. Observed: after brokers were
    killed and its process was suspended for a while, a client did not find its coordinator for nine minutes, although
    others did.
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
        self._joined_at = self._looked_at = time.monotonic()
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
        if self._consumer.memberid():
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

    def close(self) -> None:
        """Leave the group at once, so that the others need not wait for the session to expire."""
        self._gate.close(lambda: self._consumer.close())
