"""Reads and follows the config topic: the state that every worker and the leader hold in memory."""

import logging
from collections.abc import Callable, Iterable, Sequence

from ringfence.fencing import request_context, stages
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import CannotDecrypt, Retriable, Unreadable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.cluster_state import ClusterState, Fold
from ringfence.fencing.topics.config_encryption import NO_KEYS, Vault, decrypt
from ringfence.fencing.topics.config_record import ConnectorScopedRecord
from ringfence.fencing.topics.config_records import SESSION_KEY, UnknownKey, connector_of, decode
from ringfence.fencing.topics.topic_log import PATIENCE_SECONDS, TopicLog

log = logging.getLogger(__name__)


def fold(state: ClusterState, records: Iterable[LogRecord], topic: str, vault: Vault = NO_KEYS) -> ClusterState:
    """Return the state after these records (invariant 9).

    A value that cannot be read stops the connector that its key names. An unreadable session key is dropped: the leader
    makes another, and nothing else depends on it. Raises `Unreadable` for a value under any other key, unless a later
    record with that key is readable.
    """
    nobodys: dict[bytes | None, Unreadable] = {}
    folding: Fold | None = None
    for record in records:
        folding = folding or Fold(state)
        try:
            config_record = decrypt(decode(record.key, record.value), vault)
        except Unreadable as error:
            reason = f"Topic {topic}, offset {record.offset}: {error}"
            if not isinstance(error, CannotDecrypt):
                reason += (
                    ". Everything else is kept; to continue, write a readable record or a tombstone under that key"
                )
            if record.key == SESSION_KEY:
                log.warning("Topic %s, offset %d: %s. The leader makes another", topic, record.offset, error)
                folding.forget_session_key(record.offset)
                continue
            connector = None if record.key is None else connector_of(record.key)
            if connector is None:
                nobodys[record.key] = Unreadable(reason)
                nobodys[record.key].__cause__ = error
                continue
            log.warning("%s", reason)
            folding.mark_unreadable(record.offset, connector, reason)
            continue
        if isinstance(config_record, UnknownKey) and config_record.key not in folding.unknown:
            log.warning(
                "Topic %s, offset %d: key %r is not known here, or its name is too long; it is kept, and ignored",
                topic,
                record.offset,
                config_record.key,
            )
        nobodys.pop(record.key, None)
        folding.apply(record.offset, config_record)
        request = request_context.of_headers(record.headers)
        if request.id and isinstance(config_record, ConnectorScopedRecord):
            folding.note_request(config_record.owner, request)
    for unreadable in nobodys.values():
        raise unreadable
    return folding.state if folding else state


class ConfigLog:
    """The config topic and its state. Not thread-safe, except that any thread may read `state`.

    An open transaction does not block a read (`fencing.topics.topic_log`). Only the leader writes the topic. A leader
    reads after its own init, which has ended all that its predecessors left open, and waits for the markers of its own
    commits before it acts on them (`own`). Every other reader may ignore an open transaction: nobody has acted on it
    yet, and the leader fences before it does, after this reader's own init, which ends what the reader has begun.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        deadline: Deadline | None = None,
        on_records: Callable[[Sequence[LogRecord]], None] = lambda _: None,
        vault: Vault = NO_KEYS,
        *,
        keep_reader: bool = False,
    ) -> None:
        """on_records: called with all records in order, each once. vault: decrypts configurations. keep_reader: see
        `TopicLog`, for a log that is refreshed again and again.
        """
        self._on_records = on_records
        self._vault = vault
        self.topic = topic
        self.state = ClusterState()
        self._stable = ClusterState()  # without what the log holds ahead, so that it can be applied again
        self.next_offset: int | None = None
        """The offset that the topic's next record gets, as far as is known; None while somebody's transaction is
        open, or before the first `refresh`.
        """
        self._log = TopicLog(connection, topic, deadline=deadline, patience_s=PATIENCE_SECONDS, keep_reader=keep_reader)
        if len(self._log.partitions) != 1:
            raise Unreadable(
                f"Topic {topic} has {len(self._log.partitions)} partitions and needs exactly one: name another topic "
                "in config.storage.topic, or create it again with one partition and cleanup.policy=compact"
            )

    @property
    def position(self) -> int:
        """The offset of the next record."""
        return self._log.positions[0]

    def refresh(self, deadline: Deadline, own: int = -1) -> ClusterState:
        """Return the state at the current end of the topic (invariant 6). own: the producer id of the
        caller's commits.
        """
        with stages.stage("config-read"):
            ends = self._log.request_ends(deadline)
            if self.next_offset is not None and self.next_offset - 1 <= ends[0] <= self.next_offset:
                return self.state  # the marker of our own commit is missing, or the only thing that was not read
            self.next_offset = None
            self._take(self._log.catch_up(deadline, own=own, ends=ends))
            if self.position == ends[0]:
                self.next_offset = self.position
        return self.state

    def take_own(self, records: Sequence[LogRecord]) -> ClusterState:
        """Apply records that the caller has just committed at `next_offset`, which it need not read therefore.

        The marker of the commit follows them. Whatever somebody else writes before that is read by the next `refresh`.
        """
        self._on_records(records)
        self._stable = self.state = fold(self._stable, records, self.topic, self._vault)
        self._log.restart({0: records[-1].offset + 1})
        self.next_offset = records[-1].offset + 2
        return self.state

    def poll(self, timeout: float) -> bool:
        """Apply new records; return whether there were any. An open transaction does not block it."""
        before = self._log.ahead
        records = self._log.follow(timeout)
        changed = bool(records) or self._log.ahead is not before
        if changed:
            self._take(records)
        return changed

    def _take(self, records: Iterable[LogRecord]) -> None:
        positions = self._log.positions
        try:
            batch = list(records)
        except Retriable:
            self._log.restart(positions)  # records that could not be applied are read again
            raise
        self._on_records(batch)
        self._stable = fold(self._stable, batch, self.topic, self._vault)
        ahead = [record for record in self._log.ahead if record.offset >= self.position]
        self.state = fold(self._stable, ahead, self.topic, self._vault)

    def close(self) -> None:
        self._log.close()
