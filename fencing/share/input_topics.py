"""The topics that a share group reads: their ids and partitions, as they were just before and just after a reading."""

import logging
from collections.abc import Iterable, Sequence

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.kafka.admin import cluster_id, topic_identity, topic_ids
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.offsets.ledger_keys import InputPartition

log = logging.getLogger(__name__)

_SECONDS = 10.0


class InputTopics:
    """A record is delivered under a topic's name, and the ledger goes by the topic's id.

    Ids never come back: where a topic has the same one before and after a reading, that is whose records were read.
    """

    def __init__(self, connection: Connection, names: Sequence[str]) -> None:
        self.names = list(names)
        self._connection = connection
        self._ids: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self.cluster = ""
        """The id of their cluster, once it has told it."""

    def refresh(self) -> None:
        """Look at all of them. One that is not there (yet) is left out. Raises `FencingError`."""
        self.cluster = self.cluster or self._ask_for_cluster()
        found = topic_ids(self._connection, self.names, Deadline.after(_SECONDS))
        for name in self.names:
            if found.get(name) is None:
                self._forget(name)
                continue
            try:
                topic_id, partitions = topic_identity(self._connection, name, Deadline.after(_SECONDS))
            except Retriable as error:
                log.info("%s", error)
                self._forget(name)
                continue
            if self._ids.get(name, topic_id) != topic_id:
                log.warning("Topic %s is another one than before: it was deleted and created again", name)
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
            log.warning("Topic %s is not there any more", name)

    def is_same(self, names: Iterable[str]) -> bool:
        """Whether these topics are still the ones that were looked at. Ask after a reading."""
        asked = sorted(set(names))
        found = topic_ids(self._connection, asked, Deadline.after(_SECONDS))
        return all(name in self._ids and found[name] == self._ids[name] for name in asked)

    def find(self, name: str, partition: int) -> InputPartition | None:
        """None where the topic was not there, or had fewer partitions, when it was looked at."""
        known = partition < self._counts.get(name, 0)
        return InputPartition(self._ids[name], partition) if known else None

    def partitions(self) -> list[tuple[str, InputPartition]]:
        """Each partition with its topic's name."""
        return [
            (name, InputPartition(self._ids[name], number))
            for name, count in self._counts.items()
            for number in range(count)
        ]
