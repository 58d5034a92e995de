"""Finds input partitions that were deleted, so that the ledger can forget them.

If the ledger forgot a partition that still exists, its records would be processed again. So a topic only counts as
deleted if its own cluster says, each time it is asked for ten minutes, that the name does not exist or has another id.
A topic that cannot be described is not deleted. Ids are never reused. A state without the id of its cluster is kept,
since the connector may read from another cluster now.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import cluster_id, topic_ids
from ringfence.fencing.offsets.ledger_keys import InputPartition

log = logging.getLogger(__name__)

AFTER_S = 600.0
_EVERY_S: Final = 20.0
_SECONDS: Final = 10.0

Places = Mapping[InputPartition, tuple[str, str]]
"""Input partitions, with the topic's name and its cluster's id from the ledger; "" if unknown."""


class Absences:
    """Tracks since when each partition's topic has been missing without interruption. Pure."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._since: dict[InputPartition, float] = {}

    def note(
        self, now: float, places: Places, cluster: str, topic_ids: Mapping[str, str | None]
    ) -> list[InputPartition]:
        """Return the deleted partitions. topic_ids: the id of each name in this cluster, None if the cluster says that
        there is no such topic; names whose state is unknown are left out.
        """
        away = [
            tp
            for tp, (name, home) in places.items()
            if name in topic_ids and topic_ids[name] != tp.topic_id and home and home == cluster
        ]
        self._since = {tp: self._since.get(tp, now) for tp in away}
        return [tp for tp, since in self._since.items() if now - since >= self._after_s]


class DeletedTopics:
    """Asks the input's cluster regularly."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._absences = Absences(AFTER_S)
        self._every_s = min(_EVERY_S, AFTER_S / 4)
        self._looked_at = clock.monotonic()

    def look(self, places: Places) -> list[InputPartition]:
        """Return the deleted partitions; none if the cluster does not answer."""
        now = self._clock.monotonic()
        if now - self._looked_at < self._every_s or not places:
            return []
        self._looked_at = now
        limit = Deadline.after(_SECONDS, self._clock)
        try:
            cluster = cluster_id(self._connection, limit)
            return self._absences.note(now, places, cluster, self._ask({name for name, _ in places.values()}, limit))
        except FencingError as error:
            log.info("%s", error)
            return self._absences.note(now, places, "", {})

    def _ask(self, names: Iterable[str], limit: Deadline) -> dict[str, str | None]:
        """Ask for the names one by one, since a failure for one says nothing about the others."""
        ids: dict[str, str | None] = {}
        for name in sorted(set(names) - {""}):
            try:
                ids |= topic_ids(self._connection, [name], limit)
            except FencingError as error:
                log.info("%s", error)
        return ids
