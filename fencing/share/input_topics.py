"""The topics that a share group reads: their ids and partitions, just before and just after a poll."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import Answer, Message
from ringfence.fencing.kafka.topic_admin import cluster_id, topic_identity, topic_ids
from ringfence.fencing.offsets.ledger_keys import InputPartition


class ShareRecord:
    """See `ringfence.connectors.api.ShareRecord`. It is a plain class for speed.

    message: the locked message; None for a record that the sweep has found. answer: the acknowledgement to send after
    the commit. alone: whether it is tried in a transaction of only this record.
    """

    __slots__ = (
        "alone",
        "answer",
        "delivery_count",
        "headers",
        "key",
        "message",
        "offset",
        "partition",
        "timestamp_ms",
        "topic",
        "tp",
        "value",
    )

    def __init__(self, message: Message, tp: InputPartition, *, locked: bool) -> None:
        self.topic = str(message.topic())
        self.partition = tp.partition
        self.offset = int(message.offset() or 0)
        self.key: bytes | None = message.key()
        self.value: bytes | None = message.value()
        self.timestamp_ms = int(message.timestamp()[1])
        headers: Any = message.headers()
        self.headers: Sequence[tuple[str, bytes | None]] = headers or ()
        self.delivery_count = int(message.delivery_count() or 1) if locked else 0
        self.message = message if locked else None
        self.tp = tp
        self.answer = Answer.ACCEPT
        self.alone = False


log = logging.getLogger(__name__)

_SECONDS = 10.0


class InputTopics:
    """Finds the id of a topic by name: records are delivered with the name, and the ledger has the id.

    Ids are never reused. So if a topic has the same id before and after a poll, the records are of that topic.
    """

    def __init__(self, connection: Connection, names: Sequence[str]) -> None:
        self.names = list(names)
        self._connection = connection
        self._ids: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self.cluster = ""
        """The id of their cluster; "" until it is known."""

    def refresh(self) -> None:
        """Fetch ids and partitions of all topics. A missing one is left out. Raises `FencingError`."""
        self.cluster = self.cluster or self._ask_for_cluster()
        ids = topic_ids(self._connection, self.names, Deadline.after(_SECONDS))
        for name in self.names:
            if ids.get(name) is None:
                self._forget(name)
                continue
            try:
                topic_id, partitions = topic_identity(self._connection, name, Deadline.after(_SECONDS))
            except Retriable as error:
                log.info("%s", error)
                self._forget(name)
                continue
            if self._ids.get(name, topic_id) != topic_id:
                log.warning("Topic %s was deleted and created again", name)
            self._ids[name], self._counts[name] = topic_id, len(partitions)

    def _ask_for_cluster(self) -> str:
        try:
            return cluster_id(self._connection, Deadline.after(_SECONDS))
        except FencingError as error:
            log.info("%s", error)
            return ""

    def _forget(self, name: str) -> None:
        self._counts.pop(name, None)
        if self._ids.pop(name, None) is not None:
            log.warning("Topic %s no longer exists", name)

    def is_same(self, names: Iterable[str]) -> bool:
        """Return whether these topics still have the same ids. Call it after a poll."""
        topics = sorted(set(names))
        ids = topic_ids(self._connection, topics, Deadline.after(_SECONDS))
        return all(name in self._ids and ids[name] == self._ids[name] for name in topics)

    def find(self, name: str, partition: int) -> InputPartition | None:
        """Return the partition; None if the topic was missing, or had fewer partitions, at the last refresh."""
        exists = partition < self._counts.get(name, 0)
        return InputPartition(self._ids[name], partition) if exists else None

    def partitions(self) -> list[tuple[str, InputPartition]]:
        """Return each partition with its topic's name."""
        return [
            (name, InputPartition(self._ids[name], number))
            for name, count in self._counts.items()
            for number in range(count)
        ]
